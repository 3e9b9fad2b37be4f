#include "server/daemon/daemon.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/clock.h"
#include "core/base/files.h"
#include "core/base/process.h"
#include "core/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "server/daemon/api_server.h"
#include "server/daemon/checkpoint_service.h"
#include "server/daemon/job_service.h"
#include "server/daemon/metrics_endpoint.h"
#include "server/daemon/metrics_feed.h"
#include "server/daemon/node_info.h"
#include "server/daemon/node_metrics.h"
#include "server/daemon/node_service.h"
#include "server/daemon/profile_service.h"
#include "server/daemon/state_lock.h"
#include "server/daemon/telemetry_service.h"
#include "server/daemon/tracker_plugins.h"
#include "server/daemon/tracker_service.h"
#include "spdlog/spdlog.h"

namespace accel::daemon {
namespace {

constexpr int kPoolThreads = 4;
constexpr absl::Duration kStreamPatience = absl::Seconds(2);
constexpr absl::Duration kCallPatience = absl::Seconds(1);

// Makes the state folder ours alone.
absl::Status PrepareStateDir(const std::filesystem::path& path) {
  ACCEL_RETURN_IF_ERROR(CreatePrivateDirectories(path));
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return ErrnoStatus("cannot look at", path, errno);
  if (!S_ISDIR(info.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(path.string(), " is not a folder"));
  }
  if ((info.st_mode & 077) == 0) return absl::OkStatus();
  if (chmod(path.c_str(), 0700) != 0) return ErrnoStatus("cannot protect", path, errno);
  spdlog::warn("state folder {} was open to others; it is owner-only now", path.string());
  return absl::OkStatus();
}

class RunningDaemon final : public Daemon {
 public:
  explicit RunningDaemon(DaemonOptions options)
      : options_(std::move(options)), start_time_(clock_.Now()), pool_(kPoolThreads) {}

  ~RunningDaemon() override { Drain(); }

  absl::Status Start() {
    ACCEL_RETURN_IF_ERROR(PrepareStateDir(options_.state_dir));
    ACCEL_ASSIGN_OR_RETURN(lock_, StateLock::Acquire(options_.state_dir));
    ACCEL_RETURN_IF_ERROR(CheckAddresses());
    ACCEL_ASSIGN_OR_RETURN(tracker_plugins_,
                           RegisterTrackerPlugins(options_, &ProcessLauncher::Real()));
    ACCEL_ASSIGN_OR_RETURN(store_, JobStore::Open(options_.state_dir / "node.db"));
    ACCEL_RETURN_IF_ERROR(store_->Prune(clock_.Now()));
    ACCEL_RETURN_IF_ERROR(StartMetrics());
    ACCEL_RETURN_IF_ERROR(StartJobs());
    ACCEL_RETURN_IF_ERROR(StartApi());
    return Announce();
  }

  void Drain() override {
    if (std::exchange(drained_, true)) return;
    if (server_ != nullptr) {
      spdlog::info("draining; jobs go on");
      server_->SetNotServing();
      jobs_->StopAdmission();
      hub_->Drain(kStreamPatience);
      server_->Shutdown(kCallPatience);
      unlink(InfoPath().c_str());
    }
    if (feed_ != nullptr) feed_->Stop();
    if (jobs_ != nullptr) jobs_->Detach();
  }

  const std::vector<std::string>& listen_addresses() const override { return server_->addresses(); }
  const std::string& metrics_address() const override { return metrics_address_; }

 private:
  std::filesystem::path JobsDir() const { return options_.state_dir / "jobs"; }
  std::filesystem::path InfoPath() const { return options_.state_dir / "acceld.json"; }

  // Before any job is touched.
  absl::Status CheckAddresses() {
    for (const Address& address : options_.listen) ACCEL_RETURN_IF_ERROR(ProbeAddress(address));
    return options_.metrics_address.has_value() ? ProbeAddress(*options_.metrics_address)
                                                : absl::OkStatus();
  }

  absl::Status StartMetrics() {
    node_metrics_ = std::make_unique<NodeMetrics>(registry_.get());
    MetricsFeedOptions feed_options;
    feed_options.interval = options_.metrics_interval;
    feed_ = std::make_unique<MetricsFeed>(registry_.get(), node_metrics_.get(), JobsDir(),
                                          feed_options);
    if (!options_.metrics_address.has_value()) return absl::OkStatus();
    ACCEL_ASSIGN_OR_RETURN(endpoint_, MetricsEndpoint::Start(*options_.metrics_address, registry_));
    metrics_address_ = endpoint_->address().ToString();
    return absl::OkStatus();
  }

  absl::Status StartJobs() {
    LaunchConfig launch;
    launch.jobs_dir = JobsDir();
    launch.supervisor_path = options_.supervisor;
    launch.worker_path = options_.worker;
    launch.data_roots = options_.data_roots;
    launch.rendezvous_networks = options_.rendezvous_networks;
    launch.rendezvous_root = options_.rendezvous_root;
    launch.worker_environment = options_.worker_env;
    launch.secrets_file = options_.secrets_file;
    launch.tracker_environment = options_.tracker_env;
    launch.custom_trackers = options_.custom_trackers;
    launch.tracker_plugins = tracker_plugins_;
    launch.tracker_ca_file = options_.tracker_ca_file;
    launcher_ = std::make_unique<SupervisorLauncher>(std::move(launch), &ProcessLauncher::Real(),
                                                     &FileSystem::Real());
    JobManagerConfig config;
    config.max_ranks = options_.max_ranks;
    config.max_queued_jobs = options_.max_queued_jobs;
    config.jobs_dir = JobsDir();
    jobs_ =
        std::make_unique<JobManager>(std::move(config), store_.get(), launcher_.get(), feed_.get());
    ACCEL_RETURN_IF_ERROR(jobs_->Start());
    feed_->Start(jobs_.get(), options_.max_ranks);
    return absl::OkStatus();
  }

  absl::Status StartApi() {
    environment_.jobs = jobs_.get();
    environment_.store = store_.get();
    environment_.pool = &pool_;
    environment_.observer = node_metrics_.get();
    environment_.clock = &clock_;
    StreamLimits stream_limits;
    stream_limits.max_streams = options_.max_streams;
    stream_limits.idle_interval = options_.stream_idle_interval;
    hub_ = std::make_unique<StreamHub>(&environment_, stream_limits);

    config::NodeLimits limits;
    limits.max_world_size = options_.max_world_size;
    limits.cuda_devices = CountCudaDevices();
    limits.data_roots = options_.data_roots;
    limits.rendezvous_networks = options_.rendezvous_networks;
    accel::v1::Node node = DescribeNode(options_, start_time_);
    for (const auto& [name, plugin] : tracker_plugins_) node.add_custom_trackers(name);
    node.set_metrics_address(metrics_address_);

    config::TrackerNode trackers;
    trackers.environment = options_.tracker_env;
    for (const auto& [name, url] : options_.custom_trackers) trackers.custom.insert(name);
    for (const auto& [name, plugin] : tracker_plugins_) trackers.custom.insert(name);
    trackers.urls = options_.tracker_urls;
    job_service_ = std::make_unique<JobService>(&environment_, std::move(limits),
                                                std::move(trackers), options_.secrets_file);
    tracker_service_ = std::make_unique<TrackerService>(&environment_, launcher_.get());
    telemetry_service_ = std::make_unique<TelemetryService>(hub_.get());
    checkpoint_service_ = std::make_unique<CheckpointService>(&environment_);
    node_service_ = std::make_unique<NodeService>(&environment_, std::move(node));
    profile_service_ = std::make_unique<ProfileService>(&environment_);
    ACCEL_ASSIGN_OR_RETURN(
        server_,
        ApiServer::Start(options_.listen,
                         {job_service_.get(), telemetry_service_.get(), checkpoint_service_.get(),
                          node_service_.get(), profile_service_.get(), tracker_service_.get()}));
    node_service_->SetListenAddresses(server_->addresses());
    return absl::OkStatus();
  }

  absl::Status Announce() {
    const nlohmann::json info = {
        {"pid", getpid()},
        {"version", ACCEL_VERSION},
        {"listen_addresses", server_->addresses()},
        {"metrics_address", metrics_address_},
        {"state_dir", options_.state_dir.string()},
        {"start_time", absl::FormatTime(absl::RFC3339_sec, start_time_, absl::UTCTimeZone())},
    };
    ACCEL_RETURN_IF_ERROR(FileSystem::Real().WriteDurably(InfoPath(), info.dump(2) + "\n"));
    spdlog::info("acceld {} serves on {}; metrics {}", ACCEL_VERSION,
                 absl::StrJoin(server_->addresses(), ", "),
                 metrics_address_.empty() ? "off" : metrics_address_);
    return absl::OkStatus();
  }

  const DaemonOptions options_;
  const Clock& clock_ = Clock::Real();
  const absl::Time start_time_;
  bool drained_ = false;

  // Destroyed in reverse order: what uses something comes after it.
  std::optional<StateLock> lock_;
  std::unique_ptr<JobStore> store_;
  const std::shared_ptr<prometheus::Registry> registry_ = std::make_shared<prometheus::Registry>();
  std::unique_ptr<NodeMetrics> node_metrics_;
  std::unique_ptr<MetricsFeed> feed_;
  std::unique_ptr<MetricsEndpoint> endpoint_;
  std::string metrics_address_;
  std::map<std::string, accel::internal::v1::TrackerPlugin> tracker_plugins_;
  std::unique_ptr<SupervisorLauncher> launcher_;
  std::unique_ptr<JobManager> jobs_;
  ServiceEnvironment environment_;
  std::unique_ptr<StreamHub> hub_;
  WorkPool pool_;
  std::unique_ptr<JobService> job_service_;
  std::unique_ptr<TelemetryService> telemetry_service_;
  std::unique_ptr<CheckpointService> checkpoint_service_;
  std::unique_ptr<NodeService> node_service_;
  std::unique_ptr<ProfileService> profile_service_;
  std::unique_ptr<TrackerService> tracker_service_;
  std::unique_ptr<ApiServer> server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(DaemonOptions options) {
  auto daemon = std::make_unique<RunningDaemon>(std::move(options));
  ACCEL_RETURN_IF_ERROR(daemon->Start());
  return daemon;
}

}  // namespace accel::daemon
