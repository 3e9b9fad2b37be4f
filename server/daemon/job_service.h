#ifndef ACCEL_SERVER_DAEMON_JOB_SERVICE_H_
#define ACCEL_SERVER_DAEMON_JOB_SERVICE_H_

#include "accel/v1/job.grpc.pb.h"
#include "core/config/job_spec.h"
#include "server/daemon/service_environment.h"

namespace accel::daemon {

// accel.v1.JobService over a JobManager.
class JobService final : public accel::v1::JobService::CallbackService {
 public:
  JobService(ServiceEnvironment* environment, config::NodeLimits limits)
      : environment_(environment), limits_(std::move(limits)) {}

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

  ServiceEnvironment* const environment_;
  const config::NodeLimits limits_;
};

}  // namespace accel::daemon

#endif  // ACCEL_SERVER_DAEMON_JOB_SERVICE_H_
