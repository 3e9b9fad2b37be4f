#ifndef ACCEL_SERVER_DAEMON_TRACKER_SERVICE_H_
#define ACCEL_SERVER_DAEMON_TRACKER_SERVICE_H_

#include <string>

#include "accel/v1/tracking.grpc.pb.h"
#include "server/daemon/service_environment.h"
#include "server/daemon/supervisor_launcher.h"

namespace accel::daemon {

// accel.v1.TrackerService: reads how trackers stand from the jobs' records, and starts processes
// that send what is left.
class TrackerService final : public accel::v1::TrackerService::CallbackService {
 public:
  TrackerService(ServiceEnvironment* environment, SupervisorLauncher* launcher)
      : environment_(environment), launcher_(launcher), sync_pool_(kSyncs) {}

  grpc::ServerUnaryReactor* ListTrackers(grpc::CallbackServerContext* context,
                                         const accel::v1::ListTrackersRequest* request,
                                         accel::v1::ListTrackersResponse* response) override;
  grpc::ServerUnaryReactor* SyncTrackers(grpc::CallbackServerContext* context,
                                         const accel::v1::SyncTrackersRequest* request,
                                         accel::v1::SyncTrackersResponse* response) override;

 private:
  // At one time; others wait.
  static constexpr int kSyncs = 2;

  absl::StatusOr<std::vector<accel::v1::TrackerStatus>> Read(const std::string& job_id);
  absl::Status Sync(const accel::v1::SyncTrackersRequest& request,
                    accel::v1::SyncTrackersResponse* response);
  // The process's exit code.
  absl::StatusOr<int> AwaitSync(pid_t pid);

  ServiceEnvironment* const environment_;
  SupervisorLauncher* const launcher_;
  WorkPool sync_pool_;
};

}  // namespace accel::daemon

#endif  // ACCEL_SERVER_DAEMON_TRACKER_SERVICE_H_
