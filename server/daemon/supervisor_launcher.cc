#include "server/daemon/supervisor_launcher.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "accel/internal/v1/supervisor.pb.h"
#include "core/base/status_macros.h"
#include "server/daemon/checkpoints.h"
#include "server/daemon/job_store.h"
#include "server/daemon/process_identity.h"
#include "server/daemon/resource_names.h"

namespace accel::daemon {
namespace {

constexpr const char* kInheritedVariables[] = {"PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "TZ"};

std::map<std::string, std::string> InheritedEnvironment() {
  std::map<std::string, std::string> environment;
  for (const char* const name : kInheritedVariables) {
    if (const char* const value = std::getenv(name)) environment[name] = value;
  }
  return environment;
}

absl::StatusOr<Fd> OpenFile(const std::filesystem::path& path, int flags) {
  Fd fd(open(path.c_str(), flags | O_CLOEXEC, 0600));
  if (!fd.valid()) return ErrnoStatus("cannot open", path, errno);
  return fd;
}

}  // namespace

absl::StatusOr<LaunchedSupervisor> SupervisorLauncher::Launch(const accel::v1::Job& job) {
  const JobFolder folder{config_.jobs_dir / JobIdOf(job)};
  const std::map<std::string, std::string> inherited = InheritedEnvironment();

  accel::internal::v1::JobLaunch launch;
  *launch.mutable_job() = job;
  for (const auto& [name, path] : config_.data_roots) {
    (*launch.mutable_data_roots())[name] = path.string();
  }
  launch.set_worker_path(config_.worker_path.string());
  for (const std::string& network : config_.rendezvous_networks) {
    launch.add_rendezvous_networks(network);
  }
  launch.set_rendezvous_root(config_.rendezvous_root.string());
  for (const auto* variables : {&inherited, &config_.worker_environment}) {
    for (const auto& [name, value] : *variables) {
      (*launch.mutable_worker_environment())[name] = value;
    }
  }
  AddTrackerSettings(&launch);
  if (job.spec().has_resume_from()) {
    ACCEL_ASSIGN_OR_RETURN(const CheckpointName name,
                           ParseCheckpointName(job.spec().resume_from(), "resume_from"));
    ACCEL_ASSIGN_OR_RETURN(const accel::v1::Checkpoint checkpoint,
                           FindCheckpoint(config_.jobs_dir, name));
    launch.set_resume_dir(checkpoint.path());
  }
  ACCEL_RETURN_IF_ERROR(CreatePrivateDirectories(folder.path));
  ACCEL_RETURN_IF_ERROR(files_->WriteDurably(folder.launch(), launch.SerializeAsString()));

  ACCEL_ASSIGN_OR_RETURN(const pid_t pid, Spawn(folder.path, {}));

  // Our child is not reaped before its handle does it, so the pid still is the child's.
  LaunchedSupervisor launched;
  launched.process.child = pid;
  launched.process.pidfd.Reset(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (const auto identity = ProcessIdentity::Of(pid)) launched.identity = identity->ToString();
  return launched;
}

absl::StatusOr<pid_t> SupervisorLauncher::LaunchTrackerSync(const std::string& job_id,
                                                            absl::Duration timeout) {
  const JobFolder folder{config_.jobs_dir / job_id};
  ACCEL_ASSIGN_OR_RETURN(const std::string contents, files_->Read(folder.launch()));
  accel::internal::v1::JobLaunch launch;
  if (!launch.ParseFromString(contents)) {
    return absl::DataLossError(absl::StrCat(folder.launch().string(), " cannot be read"));
  }
  AddTrackerSettings(&launch);
  ACCEL_RETURN_IF_ERROR(files_->WriteDurably(folder.launch(), launch.SerializeAsString()));
  return Spawn(folder.path, {"--sync_trackers", absl::StrCat(absl::ToDoubleSeconds(timeout))});
}

void SupervisorLauncher::AddTrackerSettings(accel::internal::v1::JobLaunch* launch) const {
  launch->set_secrets_file(config_.secrets_file.string());
  *launch->mutable_tracker_environment() = {config_.tracker_environment.begin(),
                                            config_.tracker_environment.end()};
  *launch->mutable_custom_trackers() = {config_.custom_trackers.begin(),
                                        config_.custom_trackers.end()};
  *launch->mutable_tracker_plugins() = {config_.tracker_plugins.begin(),
                                        config_.tracker_plugins.end()};
  launch->set_tracker_ca_file(config_.tracker_ca_file.string());
}

absl::StatusOr<pid_t> SupervisorLauncher::Spawn(const std::filesystem::path& job_dir,
                                                const std::vector<std::string>& arguments) {
  ACCEL_ASSIGN_OR_RETURN(const Fd input, OpenFile("/dev/null", O_RDONLY));
  ACCEL_ASSIGN_OR_RETURN(const Fd output, OpenFile(JobFolder{job_dir}.supervisor_log(),
                                                   O_WRONLY | O_CREAT | O_APPEND));
  ProcessOptions options;
  options.argv = {config_.supervisor_path.string(), "--job_dir", job_dir.string()};
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  for (const auto& [name, value] : InheritedEnvironment()) {
    options.environment.push_back(absl::StrCat(name, "=", value));
  }
  options.descriptors = {{input.get(), 0}, {output.get(), 1}, {output.get(), 2}};
  options.new_session = true;
  return processes_->Spawn(options);
}

}  // namespace accel::daemon
