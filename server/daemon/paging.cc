#include "server/daemon/paging.h"

#include <openssl/sha.h>

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/daemon/grpc_status.h"

namespace accel::daemon {

absl::StatusOr<int> EffectivePageSize(int32_t page_size) {
  if (page_size < 0) {
    return InvalidField("page_size", absl::StrCat("got ", page_size, "; must be at least 0"));
  }
  if (page_size == 0) return kDefaultPageSize;
  return std::min<int>(page_size, kMaxPageSize);
}

std::string MakePageToken(absl::string_view filter, int64_t position) {
  return absl::WebSafeBase64Escape(absl::StrCat(ShortDigest(filter), ":", position));
}

absl::StatusOr<int64_t> ParsePageToken(absl::string_view token, absl::string_view filter,
                                       int64_t first) {
  if (token.empty()) return first;
  std::string plain;
  int64_t position = 0;
  if (absl::WebSafeBase64Unescape(token, &plain)) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(plain, absl::MaxSplits(':', 1));
    if (absl::SimpleAtoi(parts.second, &position)) {
      if (parts.first == ShortDigest(filter)) return position;
      return InvalidField("page_token", "belongs to a request with another filter");
    }
  }
  return InvalidField("page_token", "must be the next_page_token of an earlier answer");
}

std::string ShortDigest(absl::string_view text) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), 8));
}

}  // namespace accel::daemon
