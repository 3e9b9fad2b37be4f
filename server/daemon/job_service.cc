#include "server/daemon/job_service.h"

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/secrets_file.h"
#include "core/base/status_macros.h"
#include "core/config/accelerator.h"
#include "server/daemon/checkpoints.h"
#include "server/daemon/paging.h"
#include "server/daemon/request_key.h"
#include "server/daemon/resource_names.h"

namespace accel::daemon {
namespace {

using accel::v1::Job;

constexpr double kDefaultGraceSeconds = 30;
constexpr double kMaxGraceSeconds = 3600;

void ValidateJobId(const std::string& job_id, FieldViolations* violations) {
  if (job_id.empty() || config::IsValidJobId(job_id)) return;
  violations->Add("job_id", absl::StrCat("got \"", job_id.substr(0, 100),
                                         "\"; must be at most 63 lower-case letters, digits and "
                                         "\"-\", start with a letter and not end with \"-\""));
}

void ValidateResume(const accel::v1::JobSpec& spec, const std::filesystem::path& jobs_dir,
                    FieldViolations* violations) {
  constexpr absl::string_view kField = "resume_from";
  if (!spec.has_resume_from()) return;
  const absl::StatusOr<CheckpointName> name = ParseCheckpointName(spec.resume_from(), kField);
  if (!name.ok()) {
    violations->Add(kField, absl::StrCat("got \"", spec.resume_from().substr(0, 100),
                                         "\"; must be jobs/{job}/checkpoints/{checkpoint}"));
    return;
  }
  if (const auto checkpoint = FindCheckpoint(jobs_dir, *name); !checkpoint.ok()) {
    violations->Add(kField, checkpoint.status().message());
  }
}

// Everything else in a list's request that selects jobs.
std::string FilterOf(const accel::v1::ListJobsRequest& request) {
  return absl::StrCat("jobs;", absl::StrJoin(request.states(), ","));
}

}  // namespace

config::ResolvedTracking JobService::ResolveTracking(const accel::v1::TrackingSpec& tracking,
                                                     FieldViolations* violations) const {
  config::TrackerNode node = trackers_;
  if (!secrets_file_.empty()) {
    const auto secrets = ReadSecretsFile(secrets_file_);
    if (!secrets.ok()) spdlog::warn("no secrets: {}", std::string(secrets.status().message()));
    if (secrets.ok()) {
      for (const auto& [name, value] : *secrets) node.secret_names.insert(name);
    }
  }
  return config::ResolveTracking(tracking, node, "tracking", violations);
}

absl::Status JobService::Create(const accel::v1::CreateJobRequest& request, Job* response) {
  FieldViolations violations;
  ValidateJobId(request.job_id(), &violations);
  ValidateRequestId(request.request_id(), &violations);
  config::ValidateJobSpec(request.spec(), limits_, &violations);
  ValidateResume(request.spec(), environment_->jobs->jobs_dir(), &violations);
  const config::ResolvedTracking tracking = ResolveTracking(request.spec().tracking(), &violations);
  ACCEL_RETURN_IF_ERROR(violations.ToStatus());
  const std::string device = request.spec().has_device() ? request.spec().device() : "cpu";
  ACCEL_ASSIGN_OR_RETURN(const config::ResolvedAccelerator resolved,
                         config::ResolveAccelerator(request.spec().accelerator(), device));
  Job job;
  *job.mutable_spec() = request.spec();
  *job.mutable_resolved_accelerator() = resolved.resolved;
  for (const std::string& warning : resolved.warnings) job.add_warnings(warning);
  if (request.spec().has_tracking()) *job.mutable_resolved_tracking() = tracking.tracking;
  for (const std::string& warning : tracking.warnings) job.add_warnings(warning);
  for (const std::string& warning : config::JobWarnings(job.spec())) job.add_warnings(warning);
  if (!request.job_id().empty()) job.set_name(JobName(request.job_id()));
  if (request.validate_only()) {
    ACCEL_ASSIGN_OR_RETURN(*response, environment_->jobs->Preview(std::move(job)));
    return absl::OkStatus();
  }
  ACCEL_ASSIGN_OR_RETURN(const RequestKey key, MakeRequestKey("JobService.CreateJob", request));
  ACCEL_ASSIGN_OR_RETURN(*response, environment_->jobs->Create(std::move(job), key));
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* JobService::CreateJob(grpc::CallbackServerContext* context,
                                                const accel::v1::CreateJobRequest* request,
                                                Job* response) {
  std::function<std::string()> audited;
  if (!request->validate_only()) {
    audited = [request, response] {
      if (!response->name().empty()) return response->name();
      return config::IsValidJobId(request->job_id()) ? JobName(request->job_id()) : std::string();
    };
  }
  return RunUnary(environment_, context, "JobService.CreateJob", std::move(audited),
                  [this, request, response] { return Create(*request, response); });
}

grpc::ServerUnaryReactor* JobService::GetJob(grpc::CallbackServerContext* context,
                                             const accel::v1::GetJobRequest* request,
                                             Job* response) {
  return RunUnary(environment_, context, "JobService.GetJob", nullptr,
                  [this, request, response]() -> absl::Status {
                    ACCEL_ASSIGN_OR_RETURN(const std::string id, ParseJobName(request->name()));
                    ACCEL_ASSIGN_OR_RETURN(*response, environment_->jobs->Get(id));
                    return absl::OkStatus();
                  });
}

absl::Status JobService::List(const accel::v1::ListJobsRequest& request,
                              accel::v1::ListJobsResponse* response) {
  ACCEL_ASSIGN_OR_RETURN(const int page_size, EffectivePageSize(request.page_size()));
  std::vector<Job::State> states;
  for (int i = 0; i < request.states_size(); ++i) {
    if (!Job::State_IsValid(request.states(i)) || request.states(i) == Job::STATE_UNSPECIFIED) {
      return InvalidField(
          absl::StrCat("states[", i, "]"),
          absl::StrCat("got ", static_cast<int>(request.states(i)), "; must be a state of a job"));
    }
    states.push_back(request.states(i));
  }
  const std::string filter = FilterOf(request);
  ACCEL_ASSIGN_OR_RETURN(const int64_t before, ParsePageToken(request.page_token(), filter,
                                                              std::numeric_limits<int64_t>::max()));
  ACCEL_ASSIGN_OR_RETURN(std::vector<ListedJob> jobs,
                         environment_->jobs->List(before, states, page_size));
  size_t bytes = 0;
  for (ListedJob& listed : jobs) {
    bytes += listed.job.ByteSizeLong();
    *response->add_jobs() = std::move(listed.job);
    const bool full = response->jobs_size() == page_size || bytes >= kPageBytes;
    if (full) {
      response->set_next_page_token(MakePageToken(filter, listed.order));
      break;
    }
  }
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* JobService::ListJobs(grpc::CallbackServerContext* context,
                                               const accel::v1::ListJobsRequest* request,
                                               accel::v1::ListJobsResponse* response) {
  return RunUnary(environment_, context, "JobService.ListJobs", nullptr,
                  [this, request, response] { return List(*request, response); });
}

absl::Status JobService::Cancel(const accel::v1::CancelJobRequest& request, Job* response) {
  ACCEL_ASSIGN_OR_RETURN(const std::string id, ParseJobName(request.name()));
  const double grace = request.has_grace_seconds() ? request.grace_seconds() : kDefaultGraceSeconds;
  if (!(grace >= 0 && grace <= kMaxGraceSeconds)) {
    return InvalidField("grace_seconds",
                        absl::StrCat("got ", grace, "; must be 0 to ", kMaxGraceSeconds));
  }
  ACCEL_ASSIGN_OR_RETURN(const RequestKey key, MakeRequestKey("JobService.CancelJob", request));
  ACCEL_ASSIGN_OR_RETURN(*response, environment_->jobs->Cancel(id, grace, key));
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* JobService::CancelJob(grpc::CallbackServerContext* context,
                                                const accel::v1::CancelJobRequest* request,
                                                Job* response) {
  return RunUnary(
      environment_, context, "JobService.CancelJob", [request] { return request->name(); },
      [this, request, response] { return Cancel(*request, response); });
}

absl::Status JobService::Delete(const accel::v1::DeleteJobRequest& request) {
  ACCEL_ASSIGN_OR_RETURN(const std::string id, ParseJobName(request.name()));
  ACCEL_ASSIGN_OR_RETURN(const RequestKey key, MakeRequestKey("JobService.DeleteJob", request));
  return environment_->jobs->Delete(id, key);
}

grpc::ServerUnaryReactor* JobService::DeleteJob(grpc::CallbackServerContext* context,
                                                const accel::v1::DeleteJobRequest* request,
                                                google::protobuf::Empty*) {
  return RunUnary(
      environment_, context, "JobService.DeleteJob", [request] { return request->name(); },
      [this, request] { return Delete(*request); });
}

grpc::ServerUnaryReactor* JobService::PauseJob(grpc::CallbackServerContext* context,
                                               const accel::v1::PauseJobRequest*, Job*) {
  return RunUnary(environment_, context, "JobService.PauseJob", nullptr,
                  [] { return NotImplemented("JobService.PauseJob"); });
}

grpc::ServerUnaryReactor* JobService::ResumeJob(grpc::CallbackServerContext* context,
                                                const accel::v1::ResumeJobRequest*, Job*) {
  return RunUnary(environment_, context, "JobService.ResumeJob", nullptr,
                  [] { return NotImplemented("JobService.ResumeJob"); });
}

}  // namespace accel::daemon
