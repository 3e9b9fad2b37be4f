#ifndef ACCEL_SERVER_DAEMON_JOB_FOLDER_H_
#define ACCEL_SERVER_DAEMON_JOB_FOLDER_H_

#include <filesystem>
#include <string>

namespace accel::daemon {

// Names of what lies in a job's folder, `<state_dir>/jobs/<id>`.
struct JobFolder {
  std::filesystem::path path;

  // How the supervisor is started (accel.internal.v1.JobLaunch).
  std::filesystem::path launch() const { return path / "launch.pb"; }
  // The record, written by the supervisor.
  std::filesystem::path record() const { return path / "job.db"; }
  // Standard output and error of the supervisor.
  std::filesystem::path supervisor_log() const { return path / "supervisor.log"; }
};

// Name of the socket in a job's folder on which its supervisor listens.
inline constexpr char kControlSocket[] = "control.sock";

}  // namespace accel::daemon

#endif  // ACCEL_SERVER_DAEMON_JOB_FOLDER_H_
