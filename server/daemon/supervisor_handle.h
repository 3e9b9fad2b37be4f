#ifndef ACCEL_SERVER_DAEMON_SUPERVISOR_HANDLE_H_
#define ACCEL_SERVER_DAEMON_SUPERVISOR_HANDLE_H_

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "accel/internal/v1/supervisor.pb.h"
#include "core/base/fd.h"
#include "core/base/message_channel.h"
#include "server/daemon/job_folder.h"

namespace accel::daemon {

// The process of a supervisor.
struct SupervisorProcess {
  // Its pidfd; invalid when the process is gone or was never known.
  Fd pidfd;
  // Its process id where it is our child and must be reaped; 0 otherwise.
  pid_t child = 0;
};

// How a supervisor ended, as far as the daemon can tell.
struct SupervisorEnd {
  // What its record says at last; none when there is no record.
  std::optional<accel::internal::v1::JobStatus> status;
  // How its process ended, of our own children only.
  std::optional<int> signal;
  std::optional<int> exit_code;
};

// How long a handle is patient.
struct SupervisorPatience {
  // A running supervisor that does not listen is ended after this.
  absl::Duration connect = absl::Seconds(20);
  // One whose process is unknown counts as gone after this.
  absl::Duration connect_unknown = absl::Seconds(2);
};

// The daemon's end of one supervisor that was started: connects to its socket (again, while its
// process lives), hands on what it says, and reports its end once. A thread of its own does all of
// it. Destroying the handle leaves the supervisor alone.
class SupervisorHandle {
 public:
  // Called from the handle's thread. Must not destroy the handle.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void OnSupervisorMessage(const std::string& job_id,
                                     const accel::internal::v1::FromSupervisor& message) = 0;
    // The last call; not made after Detach.
    virtual void OnSupervisorEnd(const std::string& job_id, const SupervisorEnd& end) = 0;
  };

  SupervisorHandle(std::string job_id, JobFolder folder, SupervisorProcess process, Owner* owner,
                   const SupervisorPatience& patience = {});
  // Detaches and joins the thread.
  ~SupervisorHandle();

  // Asks for the end of the job; sent as soon as the supervisor listens, and again to one that was
  // connected to again.
  void Stop(double grace_seconds);
  // UNAVAILABLE when the supervisor does not listen at the moment.
  absl::Status RequestCheckpoint();
  // Ends the process by force, and waits until its end has been reported. Lets go of a process
  // that is not known.
  void KillAndJoin();
  // Makes the thread end soon; the supervisor goes on.
  void Detach();
  // Waits until the supervisor was connected to for the first time, or has ended.
  bool AwaitSettled(absl::Duration timeout);

 private:
  enum class Wait { kTimeout, kProcessEnded, kDetached };

  void Run();
  // Null when the supervisor cannot be reached any more, or after Detach.
  std::shared_ptr<MessageChannel> Connect();
  void Serve(const std::shared_ptr<MessageChannel>& channel);
  // Waits for the end of the process; ends it by force unless the job's end is known.
  SupervisorEnd AwaitEnd();
  Wait WaitFor(absl::Duration timeout);
  void SendKill();
  bool detached() ABSL_LOCKS_EXCLUDED(mutex_);
  void Settle() ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string job_id_;
  const JobFolder folder_;
  const SupervisorProcess process_;
  Owner* const owner_;
  const SupervisorPatience patience_;
  // Readable after Detach.
  const Fd wakeup_;
  bool terminal_seen_ = false;

  absl::Mutex mutex_;
  std::shared_ptr<MessageChannel> channel_ ABSL_GUARDED_BY(mutex_);
  std::optional<double> stop_grace_ ABSL_GUARDED_BY(mutex_);
  bool detached_ ABSL_GUARDED_BY(mutex_) = false;
  bool settled_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;
};

}  // namespace accel::daemon

#endif  // ACCEL_SERVER_DAEMON_SUPERVISOR_HANDLE_H_
