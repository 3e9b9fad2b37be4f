#include "server/daemon/tracker_service.h"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/fd.h"
#include "core/base/status_macros.h"
#include "core/config/job_spec.h"
#include "core/record/reader.h"
#include "server/daemon/job_folder.h"
#include "server/daemon/request_key.h"
#include "server/daemon/resource_names.h"

namespace accel::daemon {
namespace {

using accel::v1::TrackerSpec;
using accel::v1::TrackerStatus;

constexpr double kDefaultTimeoutSeconds = 60;
constexpr double kMaxTimeoutSeconds = 3600;
// How often a wait looks whether the daemon drains.
constexpr int kLookMs = 100;
// Exit code of a sync that found the job's folder taken.
constexpr int kExitTaken = 3;

std::string NameOf(const TrackerSpec& spec) {
  if (spec.has_custom()) return spec.custom().name();
  return TrackerSpec::descriptor()->FindFieldByNumber(spec.tracker_case())->name();
}

}  // namespace

absl::StatusOr<std::vector<TrackerStatus>> TrackerService::Read(const std::string& job_id) {
  ACCEL_ASSIGN_OR_RETURN(const accel::v1::Job job, environment_->jobs->Get(job_id));
  std::map<std::string, TrackerStatus> known;
  auto reader = record::Reader::Open(JobFolder{environment_->jobs->jobs_dir() / job_id}.record());
  if (reader.ok()) {
    ACCEL_ASSIGN_OR_RETURN(std::vector<TrackerStatus> trackers, (*reader)->ListTrackers());
    for (TrackerStatus& tracker : trackers) known[tracker.name()] = std::move(tracker);
  } else if (!absl::IsNotFound(reader.status())) {
    return reader.status();
  }
  std::vector<TrackerStatus> trackers;
  // Machine 0 has them.
  if (config::IsMachineMember(job.spec())) return trackers;
  const accel::v1::TrackingSpec& spec =
      job.has_resolved_tracking() ? job.resolved_tracking() : job.spec().tracking();
  for (const TrackerSpec& tracker : spec.trackers()) {
    TrackerStatus& status = known[NameOf(tracker)];
    if (status.name().empty()) {
      status.set_name(NameOf(tracker));
      status.set_state(TrackerStatus::WAITING);
    }
    trackers.push_back(status);
    // The archive beside a service has a cursor of its own, see tracking::MakeTrackers.
    const auto archive = known.find(absl::StrCat(NameOf(tracker), "_archive"));
    if (archive != known.end()) trackers.push_back(archive->second);
  }
  return trackers;
}

absl::StatusOr<int> TrackerService::AwaitSync(pid_t pid) {
  const Fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  while (true) {
    int wait_status = 0;
    if (waitpid(pid, &wait_status, WNOHANG) == pid) {
      return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 1;
    }
    // The process goes on by itself.
    if (environment_->draining) return Draining();
    pollfd polled = {pidfd.get(), POLLIN, 0};
    poll(&polled, 1, kLookMs);
  }
}

absl::Status TrackerService::Sync(const accel::v1::SyncTrackersRequest& request,
                                  accel::v1::SyncTrackersResponse* response) {
  ACCEL_ASSIGN_OR_RETURN(const std::string id, ParseJobName(request.parent(), "parent"));
  FieldViolations violations;
  ValidateRequestId(request.request_id(), &violations);
  const double seconds =
      request.has_timeout_seconds() ? request.timeout_seconds() : kDefaultTimeoutSeconds;
  if (!(seconds >= 1 && seconds <= kMaxTimeoutSeconds)) {
    violations.Add("timeout_seconds",
                   absl::StrCat(seconds, " is not allowed; allowed: 1 to ", kMaxTimeoutSeconds));
  }
  ACCEL_RETURN_IF_ERROR(violations.ToStatus());
  ACCEL_ASSIGN_OR_RETURN(const accel::v1::Job job, environment_->jobs->Get(id));
  if (!IsTerminal(job.state())) {
    return WrongJobState(id, accel::v1::Job::State_Name(job.state()), "JOB_NOT_ENDED",
                         "its trackers are fed while it runs");
  }
  if (job.resolved_tracking().trackers_size() + job.spec().tracking().trackers_size() > 0) {
    ACCEL_ASSIGN_OR_RETURN(const pid_t pid,
                           launcher_->LaunchTrackerSync(id, absl::Seconds(seconds)));
    ACCEL_ASSIGN_OR_RETURN(const int exit_code, AwaitSync(pid));
    if (exit_code == kExitTaken) {
      return WrongJobState(id, accel::v1::Job::State_Name(job.state()), "TRACKERS_BUSY",
                           "its trackers are being fed at the moment");
    }
    if (exit_code != 0) {
      return absl::InternalError(absl::StrCat("the process that sends the rows of ", id,
                                              " failed; supervisor.log of the job says why"));
    }
  }
  ACCEL_ASSIGN_OR_RETURN(std::vector<TrackerStatus> trackers, Read(id));
  for (TrackerStatus& tracker : trackers) *response->add_trackers() = std::move(tracker);
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* TrackerService::ListTrackers(
    grpc::CallbackServerContext* context, const accel::v1::ListTrackersRequest* request,
    accel::v1::ListTrackersResponse* response) {
  return RunUnary(environment_, context, "TrackerService.ListTrackers", nullptr,
                  [this, request, response]() -> absl::Status {
                    ACCEL_ASSIGN_OR_RETURN(const std::string id,
                                           ParseJobName(request->parent(), "parent"));
                    ACCEL_ASSIGN_OR_RETURN(std::vector<TrackerStatus> trackers, Read(id));
                    for (TrackerStatus& tracker : trackers) {
                      *response->add_trackers() = std::move(tracker);
                    }
                    return absl::OkStatus();
                  });
}

grpc::ServerUnaryReactor* TrackerService::SyncTrackers(
    grpc::CallbackServerContext* context, const accel::v1::SyncTrackersRequest* request,
    accel::v1::SyncTrackersResponse* response) {
  return RunUnaryOn(
      &sync_pool_, environment_, context, "TrackerService.SyncTrackers",
      [request] { return request->parent(); },
      [this, request, response] { return Sync(*request, response); });
}

}  // namespace accel::daemon
