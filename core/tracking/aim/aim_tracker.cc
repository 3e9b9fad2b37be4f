#include "core/tracking/aim/aim_tracker.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/status_macros.h"
#include "core/base/utf8.h"
#include "core/tracking/aim/tree.h"
#include "core/tracking/json_values.h"
#include "core/tracking/run_identity.h"

namespace accel::tracking::aim {
namespace {

using nlohmann::json;

constexpr size_t kHashDigits = 24;
// After so many a message is sent. Aim's server takes a time to read a message that grows with the
// square of its length: 4000 keep it busy for minutes.
constexpr size_t kMaxInstructions = 50;
// The server forgets a client after five minutes without one.
constexpr absl::Duration kHeartbeatInterval = absl::Seconds(10);

double Seconds(absl::Time time) { return static_cast<double>(absl::ToUnixMicros(time)) / 1e6; }

json SetItem(const std::string& handler, json path, json value) {
  return json::array({handler, "__setitem__", json::array({std::move(path), std::move(value)})});
}

json With(json path, std::initializer_list<const char*> parts) {
  for (const char* part : parts) path.push_back(part);
  return path;
}

}  // namespace

std::string ServerOf(absl::string_view repo) {
  repo = absl::StripSuffix(repo, "/");
  if (absl::ConsumePrefix(&repo, "aim://")) return absl::StrCat("http://", repo);
  const bool is_http = absl::StartsWith(repo, "http://") || absl::StartsWith(repo, "https://");
  return is_http ? std::string(repo) : "";
}

absl::StatusOr<std::unique_ptr<Tracker>> AimTracker::Make(const accel::v1::AimTracker& spec,
                                                          const TrackerContext& context) {
  Options options;
  const std::string repo = context.settings.Choose(spec.repo(), "AIM_REPO");
  options.server = ServerOf(repo);
  if (options.server.empty()) {
    return absl::FailedPreconditionError(
        "aim needs the address of an aim server, aim://host:port: repo, or the node's AIM_REPO");
  }
  options.run =
      spec.has_run_hash() ? spec.run_hash() : DerivedHex(context.job_uid, "aim", kHashDigits);
  options.name = context.project;
  options.experiment = spec.experiment();
  options.create_time = context.create_time;
  return std::make_unique<AimTracker>(std::move(options), context.make_http(HttpOptions()),
                                      context.clock);
}

AimTracker::AimTracker(Options options, std::unique_ptr<HttpClient> http, const Clock* clock)
    : options_(std::move(options)),
      clock_(clock),
      client_(std::move(http), options_.server),
      sequences_(options_.run, Handler("meta"), Handler("seqs"), &omissions_) {}

std::string AimTracker::location() const {
  return absl::StrCat(options_.server, " run ", options_.run);
}

std::string AimTracker::Handler(absl::string_view what) const {
  // Names of our own: who comes after a kill takes the place of the killed one on the server.
  return absl::StrCat("accel-", options_.run, "-", what);
}

absl::Status AimTracker::Open() {
  ACCEL_RETURN_IF_ERROR(client_.Connect());
  last_heartbeat_ = clock_->Monotonic();
  ACCEL_RETURN_IF_ERROR(GetResources());
  const auto collect = [&](json path) {
    return client_.Read(Handler("meta"), "collect", json::array({std::move(path), true, false}));
  };
  const absl::StatusOr<json> attributes = collect(With(sequences_.RunPath(), {"attrs"}));
  if (!attributes.ok() && !absl::IsNotFound(attributes.status())) return attributes.status();
  const absl::StatusOr<json> traces = collect(sequences_.TracesPath());
  if (!traces.ok() && !absl::IsNotFound(traces.status())) return traces.status();
  sequences_.Learn(traces.ok() ? *traces : json());
  return BeginRun(/*is_new=*/!attributes.ok());
}

absl::Status AimTracker::GetResources() {
  const auto tree = [&](const char* name) {
    return json{{"name", name},
                {"sub", options_.run},
                {"read_only", false},
                {"index", false},
                {"timeout", nullptr}};
  };
  // Keeps the repository open on the server, which the lock needs.
  ACCEL_RETURN_IF_ERROR(client_.GetResource(Handler("repo"), "Repo", json::object()));
  const json run = {{"run_hash", options_.run}};
  ACCEL_RETURN_IF_ERROR(client_.GetResource(Handler("lock"), "Lock", run));
  ACCEL_RETURN_IF_ERROR(client_.Read(Handler("lock"), "lock", json::array({false})).status());
  ACCEL_RETURN_IF_ERROR(client_.GetResource(Handler("meta"), "TreeView", tree("meta")));
  ACCEL_RETURN_IF_ERROR(client_.GetResource(Handler("beat"), "RunHeartbeat", run));
  ACCEL_RETURN_IF_ERROR(client_.GetResource(Handler("props"), "StructuredRun",
                                            {{"hash_", options_.run},
                                             {"read_only", false},
                                             {"created_at", Seconds(options_.create_time)}}));
  return client_.GetResource(Handler("seqs"), "TreeView", tree("seqs"));
}

absl::Status AimTracker::BeginRun(bool is_new) {
  json instructions = json::array();
  const json run = sequences_.RunPath();
  if (is_new) {
    // The reader needs a run to have them; written again they would drop the configuration.
    instructions.push_back(SetItem(Handler("meta"), With(run, {"attrs"}), json::object()));
    instructions.push_back(
        SetItem(Handler("meta"), json::array({"meta", "attrs"}), json::object()));
    instructions.push_back(
        json::array({Handler("props"), "name.setter", json::array({RepairUtf8(options_.name)})}));
    if (!options_.experiment.empty()) {
      instructions.push_back(json::array(
          {Handler("props"), "experiment.setter", json::array({RepairUtf8(options_.experiment)})}));
    }
  }
  instructions.push_back(SetItem(Handler("meta"), With(run, {"end_time"}), nullptr));
  return client_.Write(instructions);
}

absl::Status AimTracker::OnOpenRun(absl::FunctionRef<absl::Status()> work) {
  absl::Status status;
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (!open_) ACCEL_RETURN_IF_ERROR(Open());
    open_ = true;
    status = work();
    if (status.ok()) return status;
    open_ = false;
    if (!absl::IsAborted(status)) break;
  }
  return status;
}

absl::Status AimTracker::Start(std::optional<int64_t> /*resume_step*/) {
  return OnOpenRun([] { return absl::OkStatus(); });
}

absl::Status AimTracker::StoreInitConfiguration(const ConfigMap& values) {
  json config = json::object();
  for (const auto& [key, value] : values) {
    // NaN and infinities stay what they are.
    const double* const number = std::get_if<double>(&value);
    config[PathKey(key)] = number != nullptr ? json(*number) : ConfigJson(value);
  }
  return OnOpenRun([&] {
    // The second feeds the completion of queries in Aim's pages.
    return client_.Write(json::array(
        {SetItem(Handler("meta"), With(sequences_.RunPath(), {"attrs", "hparams"}), config),
         SetItem(Handler("meta"), json::array({"meta", "attrs", "hparams"}), config)}));
  });
}

absl::Status AimTracker::Log(const std::vector<LogCall>& calls) {
  return OnOpenRun([&] { return WriteCalls(calls); });
}

absl::Status AimTracker::WriteCalls(const std::vector<LogCall>& calls) {
  if (clock_->Monotonic() - last_heartbeat_ >= kHeartbeatInterval) {
    ACCEL_RETURN_IF_ERROR(client_.SendHeartbeat());
    last_heartbeat_ = clock_->Monotonic();
  }
  json instructions = json::array();
  for (const LogCall& call : calls) {
    sequences_.Add(call, &instructions);
    if (instructions.size() < kMaxInstructions && &call != &calls.back()) continue;
    if (!instructions.empty()) ACCEL_RETURN_IF_ERROR(client_.Write(instructions));
    instructions.clear();
  }
  return absl::OkStatus();
}

absl::Status AimTracker::Finish(RunOutcome /*outcome*/) {
  if (!std::exchange(said_totals_, true)) omissions_.SayTotals();
  ACCEL_RETURN_IF_ERROR(OnOpenRun([&] { return Close(); }));
  open_ = false;
  return absl::OkStatus();
}

absl::Status AimTracker::Close() {
  ACCEL_RETURN_IF_ERROR(client_.Write(json::array({SetItem(
      Handler("meta"), With(sequences_.RunPath(), {"end_time"}), Seconds(clock_->Now()))})));
  ACCEL_RETURN_IF_ERROR(client_.Read(Handler("beat"), "stop", json::array()).status());
  ACCEL_RETURN_IF_ERROR(client_.Read(Handler("lock"), "release", json::array({false})).status());
  for (const char* what : {"props", "seqs", "beat", "meta", "lock", "repo"}) {
    ACCEL_RETURN_IF_ERROR(client_.ReleaseResource(Handler(what)));
  }
  return client_.Disconnect();
}

}  // namespace accel::tracking::aim
