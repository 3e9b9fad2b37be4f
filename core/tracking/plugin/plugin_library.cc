#include "core/tracking/plugin/plugin_library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <openssl/sha.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/fd.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"

namespace accel::tracking {
namespace {

constexpr char kSymbol[] = "accel_tracker_get_plugin";
constexpr size_t kMaxName = 64;

std::string Sha256(absl::string_view bytes) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return absl::BytesToHexString(digest);
}

// A file in memory that nobody can change any more.
absl::StatusOr<Fd> Seal(absl::string_view bytes) {
  Fd fd(memfd_create("tracker_plugin", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, "cannot make a file in memory");
  while (!bytes.empty()) {
    const ssize_t written = write(fd.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return absl::ErrnoToStatus(errno, "cannot write a file in memory");
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
    return absl::ErrnoToStatus(errno, "cannot seal a file in memory");
  }
  return fd;
}

bool IsName(absl::string_view name) {
  return name.size() <= kMaxName && std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(c) || c == '_' || c == '-';
         });
}

bool IsAnswer(int32_t value) { return value == ACCEL_YES || value == ACCEL_NO; }

}  // namespace

absl::Status CheckTrackerPlugin(const accel_tracker_plugin& plugin) {
  if (plugin.abi_version != ACCEL_TRACKER_ABI_VERSION) {
    return absl::InvalidArgumentError(absl::StrCat("has ABI version ", plugin.abi_version,
                                                   "; allowed: ", ACCEL_TRACKER_ABI_VERSION));
  }
  std::vector<absl::string_view> missing;
  if (plugin.name == nullptr || plugin.name[0] == '\0') missing.push_back("name");
  if (plugin.requires_logging_directory == ACCEL_UNSET) {
    missing.push_back("requires_logging_directory");
  }
  if (plugin.start == nullptr) missing.push_back("start");
  if (plugin.log == nullptr) missing.push_back("log");
  if (plugin.finish == nullptr) missing.push_back("finish");
  if (plugin.rewind == ACCEL_VOIDS && plugin.on_rewind == nullptr) missing.push_back("on_rewind");
  if (!missing.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("lacks ", absl::StrJoin(missing, ", ")));
  }
  if (!IsName(plugin.name)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "has the name \"", plugin.name, "\"; allowed: 1 to 64 letters, digits, \"_\" and \"-\""));
  }
  const bool known_rewind = plugin.rewind >= ACCEL_TAKES_LAST && plugin.rewind <= ACCEL_VOIDS;
  const bool known_process =
      plugin.main_process_only == ACCEL_UNSET || IsAnswer(plugin.main_process_only);
  if (!IsAnswer(plugin.requires_logging_directory) || !known_process || !known_rewind) {
    return absl::InvalidArgumentError(
        absl::StrCat("has requires_logging_directory ", plugin.requires_logging_directory,
                     ", main_process_only ", plugin.main_process_only, " and rewind ",
                     plugin.rewind, "; allowed: the constants of accel_tracker.h"));
  }
  return absl::OkStatus();
}

absl::StatusOr<const accel_tracker_plugin*> LoadTrackerPlugin(const std::string& path,
                                                              absl::string_view sha256) {
  ACCEL_ASSIGN_OR_RETURN(const std::string bytes, FileSystem::Real().Read(path));
  const std::string digest = Sha256(bytes);
  if (digest != absl::AsciiStrToLower(sha256)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " has the SHA-256 ", digest, ", ", sha256, " was registered"));
  }
  ACCEL_ASSIGN_OR_RETURN(Fd file, Seal(bytes));
  // Never closed: what is loaded is mapped from it.
  const std::string sealed = absl::StrCat("/proc/self/fd/", file.Release());
  void* const library = dlopen(sealed.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(path, " cannot be loaded: ", dlerror()));
  }
  using GetPlugin = const accel_tracker_plugin* (*)();
  const auto get_plugin = reinterpret_cast<GetPlugin>(dlsym(library, kSymbol));
  const accel_tracker_plugin* const plugin = get_plugin == nullptr ? nullptr : get_plugin();
  if (plugin == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, get_plugin == nullptr ? " does not export " : " gets nothing from ", kSymbol));
  }
  if (absl::Status status = CheckTrackerPlugin(*plugin); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(path, " ", status.message()));
  }
  return plugin;
}

}  // namespace accel::tracking
