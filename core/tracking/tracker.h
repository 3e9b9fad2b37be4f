#ifndef ACCEL_CORE_TRACKING_TRACKER_H_
#define ACCEL_CORE_TRACKING_TRACKER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "accel/v1/telemetry.pb.h"

namespace accel::tracking {

// A value of the initial configuration: bool, number, text or nothing.
using ConfigValue = std::variant<std::monostate, bool, int64_t, double, std::string>;
using ConfigMap = std::map<std::string, ConfigValue>;

// One call of Log: a row of the job's record.
struct LogCall {
  int64_t sequence = 0;
  absl::Time time;
  std::optional<int64_t> step;
  std::optional<int32_t> rank;
  // Attempt of the job that measured it.
  int32_t attempt = 0;
  std::map<std::string, accel::v1::MetricValue> values;
};

// How a run ended, for trackers that show it.
enum class RunOutcome { kSucceeded, kFailed, kCancelled };

// What becomes of the points that a tracker holds when an attempt of the job goes back to a
// checkpoint and trains steps again.
enum class Rewind {
  // They stay; the repeated ones are not handed over.
  kKeepsFirst,
  // The repeated ones take their place.
  kTakesLast,
  // All points from that step on are void once OnRewind was called.
  kVoids,
};

// One experiment tracker of one job; Accelerate's GeneralTracker. Used by one thread. Constructors
// touch neither files nor the network: Start does. Every call may fail and be repeated: the caller
// keeps the rows in the job's record and comes back with the same ones.
class Tracker {
 public:
  virtual ~Tracker() = default;

  // The name in TrackerSpec (`tensorboard`).
  virtual absl::string_view name() const = 0;
  // Whether the tracker writes files in the job's folder.
  virtual bool requires_logging_directory() const = 0;
  // Whether rows of single ranks other than rank 0 are kept from it.
  virtual bool main_process_only() const { return true; }

  // Opens the run. `resume_step` is the step from which a run that was interrupted goes on.
  virtual absl::Status Start(std::optional<int64_t> resume_step) = 0;
  // Stores the job's configuration as hyper-parameters. After Start, before the first Log.
  virtual absl::Status StoreInitConfiguration(const ConfigMap& values) = 0;
  // Whether a process that goes on with a run must be told the configuration again.
  virtual bool wants_configuration_at_each_start() const { return false; }
  // Rows in the record's order. On error none or some of them may have been written; they come
  // again.
  virtual absl::Status Log(const std::vector<LogCall>& calls) = 0;
  // Hands everything over and closes the run.
  virtual absl::Status Finish(RunOutcome outcome) = 0;

  // See Rewind.
  virtual Rewind rewind() const { return Rewind::kTakesLast; }
  // The next rows train the steps from `step` on again. May be called again for the same step.
  virtual absl::Status OnRewind(int64_t /*step*/) { return absl::OkStatus(); }

  // The first row of those that Log has taken and that a restart of the process would lose; the
  // rows from it on come again then. Nothing when there is none.
  virtual std::optional<int64_t> held_from() const { return std::nullopt; }

  // Where people find the run: an address or a folder. Empty while unknown.
  virtual std::string location() const { return ""; }

  // What could not be expressed since the last call, one line each, for the job's events.
  virtual std::vector<std::string> TakeWarnings() { return {}; }
};

}  // namespace accel::tracking

#endif  // ACCEL_CORE_TRACKING_TRACKER_H_
