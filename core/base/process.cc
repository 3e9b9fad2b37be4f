#include "core/base/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"

namespace accel {
namespace {

// dup2 in the child fails to clear close-on-exec when source and target are equal, and an earlier
// dup2 may overwrite a later one's source; sources are therefore first moved out of the way.
class ShiftedDescriptors {
 public:
  absl::Status Add(int source, int target) {
    constexpr int kAboveTargets = 64;
    Fd copy(fcntl(source, F_DUPFD_CLOEXEC, kAboveTargets));
    if (!copy.valid()) return absl::ErrnoToStatus(errno, "cannot duplicate a descriptor");
    entries_.emplace_back(std::move(copy), target);
    return absl::OkStatus();
  }

  void AddTo(posix_spawn_file_actions_t* actions) const {
    for (const auto& [copy, target] : entries_) {
      posix_spawn_file_actions_adddup2(actions, copy.get(), target);
    }
  }

 private:
  std::vector<std::pair<Fd, int>> entries_;
};

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& s : strings) pointers.push_back(const_cast<char*>(s.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

class RealProcessLauncher final : public ProcessLauncher {
 public:
  absl::StatusOr<pid_t> Spawn(const ProcessOptions& options) override {
    ShiftedDescriptors descriptors;
    for (const auto& [source, target] : options.descriptors) {
      ACCEL_RETURN_IF_ERROR(descriptors.Add(source, target));
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    absl::Cleanup destroy = [&] {
      posix_spawn_file_actions_destroy(&actions);
      posix_spawnattr_destroy(&attributes);
    };
    descriptors.AddTo(&actions);
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    int flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    if (options.new_session) flags |= POSIX_SPAWN_SETSID;
    posix_spawnattr_setflags(&attributes, static_cast<short>(flags));
    pid_t pid = -1;
    const int error =
        posix_spawn(&pid, options.argv.front().c_str(), &actions, &attributes,
                    Pointers(options.argv).data(), Pointers(options.environment).data());
    if (error != 0) return ErrnoStatus("cannot start", options.argv.front(), error);
    return pid;
  }
};

}  // namespace

ProcessLauncher& ProcessLauncher::Real() {
  static auto* const launcher = new RealProcessLauncher;
  return *launcher;
}

std::string DescribeWaitStatus(int status) {
  if (WIFSIGNALED(status)) return absl::StrCat("exited on signal ", WTERMSIG(status));
  return absl::StrCat("exited with code ", WEXITSTATUS(status));
}

}  // namespace accel
