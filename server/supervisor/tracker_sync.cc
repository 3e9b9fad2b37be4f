#include "server/supervisor/tracker_sync.h"

#include "absl/time/clock.h"
#include "core/base/clock.h"
#include "core/base/status_macros.h"
#include "core/record/reader.h"
#include "server/supervisor/event_loop.h"
#include "server/supervisor/job_folder.h"
#include "server/supervisor/tracker_set.h"
#include "spdlog/spdlog.h"

namespace accel::supervisor {
namespace {

using accel::v1::Job;

constexpr absl::Duration kLockPatience = absl::Seconds(3);
constexpr absl::Duration kLockRetry = absl::Milliseconds(20);

tracking::RunOutcome OutcomeOf(Job::State state) {
  if (state == Job::SUCCEEDED) return tracking::RunOutcome::kSucceeded;
  return state == Job::CANCELLED ? tracking::RunOutcome::kCancelled : tracking::RunOutcome::kFailed;
}

// A supervisor that has told the job's end takes a moment to leave.
absl::StatusOr<Fd> LockWhenFree(const JobFolder& folder) {
  const absl::Duration deadline = Clock::Real().Monotonic() + kLockPatience;
  while (true) {
    absl::StatusOr<Fd> lock = folder.Lock();
    if (lock.ok() || Clock::Real().Monotonic() > deadline) return lock;
    absl::SleepFor(kLockRetry);
  }
}

}  // namespace

absl::Status SyncTrackers(const std::filesystem::path& job_dir, absl::Duration timeout) {
  const JobFolder folder{job_dir};
  ACCEL_ASSIGN_OR_RETURN(const Fd lock, LockWhenFree(folder));
  ACCEL_ASSIGN_OR_RETURN(const accel::internal::v1::JobLaunch launch, folder.ReadLaunch());
  ACCEL_ASSIGN_OR_RETURN(const auto reader, record::Reader::Open(folder.record()));
  ACCEL_ASSIGN_OR_RETURN(const accel::internal::v1::JobStatus status, reader->ReadStatus());
  // A supervisor that was killed leaves another state behind; the lock says that it is gone.
  if (!IsTerminal(status.state())) {
    spdlog::info("the job's record ends in {}: its runs are closed as failed",
                 Job::State_Name(status.state()));
  }
  EventLoop loop;
  TrackerSet trackers(loop, Clock::Real(),
                      [](const std::string& subject, const std::string& message) {
                        spdlog::warn("{}: {}", subject, message);
                      });
  trackers.Start(launch, job_dir, folder.record());
  trackers.Finish(OutcomeOf(status.state()), timeout, [&loop] { loop.Stop(); });
  loop.Run();
  return absl::OkStatus();
}

}  // namespace accel::supervisor
