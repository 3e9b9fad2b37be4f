#ifndef ACCEL_CORE_CONFIG_ACCELERATOR_WARNINGS_H_
#define ACCEL_CORE_CONFIG_ACCELERATOR_WARNINGS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "accel/v1/kwargs.pb.h"

namespace accel::config {

// The options of a valid configuration that were set to something without effect on `device`, each
// `<path>: <reason>`. `difference` is what differs from the defaults; a value equal to its default
// is reported only where the default itself does not hold here.
std::vector<std::string> AcceleratorWarnings(const accel::v1::AcceleratorConfig& config,
                                             const accel::v1::AcceleratorConfig& difference,
                                             absl::string_view device, absl::string_view prefix);

}  // namespace accel::config

#endif  // ACCEL_CORE_CONFIG_ACCELERATOR_WARNINGS_H_
