#include "core/config/process_group_options.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/ip_address.h"
#include "core/base/status_macros.h"

namespace accel::config {
namespace {

constexpr size_t kMaxFileBytes = 255;

absl::Status WrongBackend(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is not allowed", why,
                                                 "; allowed: gloo, nccl, cpu:gloo,cuda:nccl"));
}

absl::Status WrongInitMethod(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\" is not allowed", why,
                   "; allowed: env://, tcp://host:port with an IP address or localhost, "
                   "file:///path"));
}

bool Serves(absl::string_view backend, absl::string_view device) {
  if (backend == "gloo") return device == "cpu" || device == "cuda";
  return backend == "nccl" && device == "cuda";
}

// Parts of letters, digits, "_", "-" and ".", none of which begins with ".".
bool IsRelativeFile(absl::string_view path) {
  if (path.empty() || path.size() > kMaxFileBytes) return false;
  for (const absl::string_view part : absl::StrSplit(path, '/')) {
    if (part.empty() || part.front() == '.') return false;
    if (!std::all_of(part.begin(), part.end(), [](char c) {
          return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.';
        })) {
      return false;
    }
  }
  return true;
}

absl::StatusOr<InitMethod> ParseTcp(absl::string_view text, absl::string_view address) {
  InitMethod method{.kind = InitMethod::Kind::kTcp, .host = {}, .port = 0, .file = {}};
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos ||
      !absl::SimpleAtoi(address.substr(colon + 1), &method.port) || method.port < 0 ||
      method.port > 65535) {
    return WrongInitMethod(text, "");
  }
  absl::string_view host = address.substr(0, colon);
  if (absl::ConsumePrefix(&host, "[") && !absl::ConsumeSuffix(&host, "]")) {
    return WrongInitMethod(text, "");
  }
  const auto ip = IpAddress::Parse(host);
  if (!ip.ok()) return WrongInitMethod(text, absl::StrCat(": ", ip.status().message()));
  method.host = ip->ToString();
  return method;
}

}  // namespace

absl::StatusOr<std::map<std::string, std::string>> ParseBackend(absl::string_view text) {
  std::map<std::string, std::string> backends;
  if (text == "gloo") return std::map<std::string, std::string>{{"cpu", "gloo"}, {"cuda", "gloo"}};
  if (text == "nccl") return std::map<std::string, std::string>{{"cuda", "nccl"}};
  for (const absl::string_view entry : absl::StrSplit(text, ',')) {
    const std::vector<std::string> parts = absl::StrSplit(entry, ':');
    if (parts.size() != 2) return WrongBackend(text, "");
    const auto& [device, backend] = std::pair(parts[0], parts[1]);
    if (!Serves(backend, device)) {
      return WrongBackend(text, absl::StrCat(": \"", entry, "\" is no device and its backend"));
    }
    if (!backends.emplace(device, backend).second) {
      return WrongBackend(text, absl::StrCat(": two backends for ", device));
    }
  }
  return backends;
}

absl::StatusOr<InitMethod> ParseInitMethod(absl::string_view text) {
  if (text == "env://") return InitMethod{};
  absl::string_view rest = text;
  if (absl::ConsumePrefix(&rest, "tcp://")) return ParseTcp(text, rest);
  if (absl::ConsumePrefix(&rest, "file:///")) {
    if (IsRelativeFile(rest)) {
      return InitMethod{
          .kind = InitMethod::Kind::kFile, .host = {}, .port = 0, .file = std::string(rest)};
    }
    return WrongInitMethod(
        text, absl::StrCat(": a path has parts of letters, digits, \"_\", \"-\" and \".\", none "
                           "beginning with \".\", at most ",
                           kMaxFileBytes, " bytes"));
  }
  return WrongInitMethod(text, "");
}

}  // namespace accel::config
