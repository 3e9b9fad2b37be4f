#ifndef ACCEL_CLIENT_CLI_JOB_FILE_H_
#define ACCEL_CLIENT_CLI_JOB_FILE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "accel/v1/job.pb.h"
#include "accel/v1/kwargs.pb.h"
#include "client/cli/io.h"

namespace accel::cli {

// Contents of a file, or of standard input for `-`. INVALID_ARGUMENT when it cannot be read or has
// more than 1 MiB.
absl::StatusOr<std::string> ReadInput(const Io& io, const std::string& file);

// A job file in YAML or JSON with `overrides` on top, each `path=value`: `loop.num_epochs=2`,
// `labels.team=vision`, `model.mlp.layer_sizes=[784, 64, 10]`. The value is YAML and replaces what
// the file says. Errors name the file or the override.
absl::StatusOr<v1::JobSpec> ReadJobFile(const Io& io, const std::string& file,
                                        const std::vector<std::string>& overrides);

// Accelerate's settings and the device they are for.
struct AcceleratorFile {
  v1::AcceleratorConfig config;
  std::string device = "cpu";
};

// A file with an AcceleratorConfig, or a job file, whose `accelerator` and `device` are taken.
absl::StatusOr<AcceleratorFile> ReadAcceleratorFile(const Io& io, const std::string& file);

}  // namespace accel::cli

#endif  // ACCEL_CLIENT_CLI_JOB_FILE_H_
