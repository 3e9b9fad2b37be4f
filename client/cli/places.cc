#include "client/cli/places.h"

#include <signal.h>

#include <cerrno>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace accel::cli {
namespace {

namespace fs = std::filesystem;

// A proto's JSON form writes 64-bit numbers as strings; both are taken.
pid_t PidOf(const nlohmann::json& value) {
  pid_t pid = 0;
  if (value.is_number_integer()) return value.get<pid_t>();
  if (value.is_string() && absl::SimpleAtoi(value.get<std::string>(), &pid)) return pid;
  return 0;
}

std::string StringOf(const nlohmann::json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

// A pid of another user answers EPERM and is alive.
bool IsAlive(pid_t pid) { return kill(pid, 0) == 0 || errno != ESRCH; }

// Empty when no daemon seems to run with this state folder.
std::string AddressIn(const fs::path& state_dir) {
  const absl::StatusOr<DaemonFile> file = ReadDaemonFile(state_dir);
  if (file.ok()) return IsAlive(file->pid) ? file->listen_addresses.front() : std::string();
  std::error_code error;
  const fs::path socket = state_dir / "acceld.sock";
  return fs::is_socket(socket, error) ? absl::StrCat("unix:", socket.string()) : std::string();
}

}  // namespace

absl::StatusOr<fs::path> UserStateDir(const Io& io) {
  if (const std::string dir = io.Env("ACCEL_STATE_DIR"); !dir.empty()) return fs::absolute(dir);
  if (const fs::path dir = io.Env("XDG_STATE_HOME"); dir.is_absolute()) return dir / "accel";
  if (const std::string home = io.Env("HOME"); !home.empty()) {
    return fs::path(home) / ".local/state/accel";
  }
  return absl::FailedPreconditionError(
      "no state folder: none of ACCEL_STATE_DIR, XDG_STATE_HOME and HOME is set");
}

absl::StatusOr<DaemonFile> ReadDaemonFile(const fs::path& state_dir) {
  const fs::path path = state_dir / "acceld.json";
  ACCEL_ASSIGN_OR_RETURN(const std::string text, FileSystem::Real().Read(path));
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  DaemonFile file;
  if (json.is_object()) {
    file.pid = PidOf(json.value("pid", nlohmann::json()));
    file.version = StringOf(json, "version");
    file.metrics_address = StringOf(json, "metrics_address");
    for (const auto& address : json.value("listen_addresses", nlohmann::json::array())) {
      if (address.is_string()) file.listen_addresses.push_back(address.get<std::string>());
    }
  }
  if (file.pid <= 0 || file.listen_addresses.empty()) {
    return absl::DataLossError(
        absl::StrCat(path.string(), " does not name a daemon's pid and listen_addresses"));
  }
  return file;
}

bool IsAcceld(pid_t pid) {
  std::error_code error;
  const std::string exe = fs::read_symlink(absl::StrCat("/proc/", pid, "/exe"), error).filename();
  // The kernel marks a program whose file was replaced by a newer build.
  return !error && absl::StripSuffix(exe, " (deleted)") == "acceld";
}

absl::StatusOr<std::string> FindAddress(const Io& io, const std::string& flag) {
  if (!flag.empty()) return flag;
  if (const std::string address = io.Env("ACCEL_ADDRESS"); !address.empty()) return address;
  std::vector<fs::path> places;
  if (absl::StatusOr<fs::path> user = UserStateDir(io); user.ok()) places.push_back(*user);
  places.emplace_back(kSystemStateDir);
  for (const fs::path& place : places) {
    if (const std::string address = AddressIn(place); !address.empty()) return address;
  }
  return absl::UnavailableError(absl::StrCat(
      "no running daemon found in ",
      absl::StrJoin(places, " or ",
                    [](std::string* out, const fs::path& place) { out->append(place.string()); })));
}

}  // namespace accel::cli
