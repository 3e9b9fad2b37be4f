#include "server/daemon/request_key.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace accel::daemon {

void ValidateRequestId(absl::string_view request_id, FieldViolations* violations) {
  constexpr size_t kMaxBytes = 64;
  if (request_id.size() > kMaxBytes) {
    violations->Add("request_id", absl::StrCat("has ", request_id.size(), " bytes; at most ",
                                               kMaxBytes, " are allowed"));
  } else if (!std::all_of(request_id.begin(), request_id.end(), absl::ascii_isgraph)) {
    violations->Add("request_id", "must be a UUID or other printable text without spaces");
  }
}

}  // namespace accel::daemon
