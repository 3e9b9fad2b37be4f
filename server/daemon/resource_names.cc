#include "server/daemon/resource_names.h"

#include <openssl/rand.h>

#include <array>
#include <cstdlib>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/config/job_spec.h"
#include "server/daemon/grpc_status.h"

namespace accel::daemon {
namespace {

// What came is quoted, cut to what a person reads, and made printable.
std::string Quoted(absl::string_view text) {
  constexpr size_t kShown = 100;
  return absl::StrCat("\"", absl::CEscape(text.substr(0, kShown)),
                      text.size() > kShown ? "..." : "", "\"");
}

template <size_t N>
std::array<unsigned char, N> RandomBytes() {
  std::array<unsigned char, N> bytes;
  // Fails only when the kernel gives no random numbers, which leaves nothing to go on with.
  if (RAND_bytes(bytes.data(), static_cast<int>(N)) != 1) std::abort();
  return bytes;
}

}  // namespace

std::string JobName(absl::string_view job_id) { return absl::StrCat("jobs/", job_id); }

absl::StatusOr<std::string> ParseJobName(absl::string_view name, absl::string_view field) {
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '/');
  if (parts.size() == 2 && parts[0] == "jobs" && config::IsValidJobId(parts[1])) {
    return std::string(parts[1]);
  }
  return InvalidField(field, absl::StrCat("got ", Quoted(name), "; must be jobs/{job}"));
}

absl::StatusOr<CheckpointName> ParseCheckpointName(absl::string_view name,
                                                   absl::string_view field) {
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '/');
  CheckpointName result;
  if (parts.size() == 4 && parts[0] == "jobs" && config::IsValidJobId(parts[1]) &&
      parts[2] == "checkpoints" && absl::SimpleAtoi(parts[3], &result.number) &&
      absl::StrCat(result.number) == parts[3] && result.number >= 0) {
    result.job_id = std::string(parts[1]);
    return result;
  }
  return InvalidField(
      field, absl::StrCat("got ", Quoted(name), "; must be jobs/{job}/checkpoints/{checkpoint}"));
}

std::string GenerateJobId() {
  constexpr absl::string_view kAlphabet = "abcdefghijklmnopqrstuvwxyz234567";
  std::string id = "job-";
  for (const unsigned char byte : RandomBytes<8>()) id += kAlphabet[byte % kAlphabet.size()];
  return id;
}

std::string GenerateUid() {
  auto bytes = RandomBytes<16>();
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0f) | 0x40);
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3f) | 0x80);
  const std::string hex = absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  return absl::StrCat(hex.substr(0, 8), "-", hex.substr(8, 4), "-", hex.substr(12, 4), "-",
                      hex.substr(16, 4), "-", hex.substr(20));
}

}  // namespace accel::daemon
