#ifndef ACCEL_CORE_CONFIG_FIELD_RULES_H_
#define ACCEL_CORE_CONFIG_FIELD_RULES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/errors.h"
#include "google/protobuf/message.h"

namespace accel::config {

// One line of the table of what a single field allows. Rules about several fields are code.
struct FieldRule {
  enum class Kind {
    kRequired,  // present, or not empty where repeated; for a oneof, exactly one member
    kRange,     // each value within min and max
    kNames,     // each value one of `names`
    kCount,     // min to max values, where there is any; every other field has kDefaultMaxCount
    kMaxBytes,  // at most max bytes; every other text has kDefaultMaxBytes
  };
  // `Message.field` or `Message.oneof`, without the package.
  absl::string_view field;
  Kind kind;
  double min = 0;
  double max = 0;
  bool min_excluded = false;
  bool max_excluded = false;
  std::vector<absl::string_view> names = {};
  bool any_case = false;
};

// Most values of a repeated field or map, and most bytes of a text, without a rule of their own.
inline constexpr int kDefaultMaxCount = 1000;
inline constexpr int kDefaultMaxBytes = 65536;

// The whole table.
const std::vector<FieldRule>& FieldRules();

// Checks every field of `message`, and of the messages below it, against the table; numbers must be
// finite. `path` is the message's own, empty for a request.
void CheckFields(const google::protobuf::Message& message, absl::string_view path,
                 FieldViolations* violations);

// `path`.`field`, or `field` where `path` is empty.
std::string FieldPath(absl::string_view path, absl::string_view field);

// `<came> is not allowed; allowed: <allowed>`.
std::string NotAllowed(absl::string_view came, absl::string_view allowed);

// A text in quotes, escaped and cut to a length that fits a message.
std::string Quoted(absl::string_view text);

}  // namespace accel::config

#endif  // ACCEL_CORE_CONFIG_FIELD_RULES_H_
