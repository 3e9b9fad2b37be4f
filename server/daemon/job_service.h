#ifndef ACCEL_SERVER_DAEMON_JOB_SERVICE_H_
#define ACCEL_SERVER_DAEMON_JOB_SERVICE_H_

#include <filesystem>

#include "accel/v1/job.grpc.pb.h"
#include "core/config/job_spec.h"
#include "core/config/tracking_resolve.h"
#include "server/daemon/service_environment.h"

namespace accel::daemon {

// accel.v1.JobService over a JobManager.
class JobService final : public accel::v1::JobService::CallbackService {
 public:
  // The names in `secrets_file` are read for each new job: secrets may come and go.
  JobService(ServiceEnvironment* environment, config::NodeLimits limits,
             config::TrackerNode trackers, std::filesystem::path secrets_file)
      : environment_(environment),
        limits_(std::move(limits)),
        trackers_(std::move(trackers)),
        secrets_file_(std::move(secrets_file)) {}

  grpc::ServerUnaryReactor* CreateJob(grpc::CallbackServerContext* context,
                                      const accel::v1::CreateJobRequest* request,
                                      accel::v1::Job* response) override;
  grpc::ServerUnaryReactor* GetJob(grpc::CallbackServerContext* context,
                                   const accel::v1::GetJobRequest* request,
                                   accel::v1::Job* response) override;
  grpc::ServerUnaryReactor* ListJobs(grpc::CallbackServerContext* context,
                                     const accel::v1::ListJobsRequest* request,
                                     accel::v1::ListJobsResponse* response) override;
  grpc::ServerUnaryReactor* CancelJob(grpc::CallbackServerContext* context,
                                      const accel::v1::CancelJobRequest* request,
                                      accel::v1::Job* response) override;
  grpc::ServerUnaryReactor* DeleteJob(grpc::CallbackServerContext* context,
                                      const accel::v1::DeleteJobRequest* request,
                                      google::protobuf::Empty* response) override;
  grpc::ServerUnaryReactor* PauseJob(grpc::CallbackServerContext* context,
                                     const accel::v1::PauseJobRequest* request,
                                     accel::v1::Job* response) override;
  grpc::ServerUnaryReactor* ResumeJob(grpc::CallbackServerContext* context,
                                      const accel::v1::ResumeJobRequest* request,
                                      accel::v1::Job* response) override;

 private:
  absl::Status Create(const accel::v1::CreateJobRequest& request, accel::v1::Job* response);
  absl::Status List(const accel::v1::ListJobsRequest& request,
                    accel::v1::ListJobsResponse* response);
  absl::Status Cancel(const accel::v1::CancelJobRequest& request, accel::v1::Job* response);
  absl::Status Delete(const accel::v1::DeleteJobRequest& request);

  config::ResolvedTracking ResolveTracking(const accel::v1::TrackingSpec& tracking,
                                           FieldViolations* violations) const;

  ServiceEnvironment* const environment_;
  const config::NodeLimits limits_;
  const config::TrackerNode trackers_;
  const std::filesystem::path secrets_file_;
};

}  // namespace accel::daemon

#endif  // ACCEL_SERVER_DAEMON_JOB_SERVICE_H_
