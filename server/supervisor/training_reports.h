#ifndef ACCEL_SERVER_SUPERVISOR_TRAINING_REPORTS_H_
#define ACCEL_SERVER_SUPERVISOR_TRAINING_REPORTS_H_

#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "accel/internal/v1/worker.pb.h"
#include "server/supervisor/checkpoint_collector.h"
#include "server/supervisor/job_record.h"
#include "server/supervisor/step_aggregator.h"

namespace accel::supervisor {

// What the ranks of one attempt have said of their training. Hands on to the record what concerns
// all of them, and remembers how far each rank is.
class TrainingReports {
 public:
  // `record` must outlive this. Checkpoints of `job_name` lie in `checkpoints`.
  TrainingReports(int world_size, std::string job_name, std::filesystem::path checkpoints,
                  JobRecord& record);

  void OnReady(int rank, const accel::internal::v1::Ready& ready);
  void OnStep(int rank, const accel::internal::v1::StepReport& report);
  void OnMetrics(const accel::internal::v1::MetricReport& report);
  void OnCheckpoint(int rank, const accel::internal::v1::CheckpointReport& report);
  void OnFinished(int rank, const accel::internal::v1::Finished& finished);
  // The ranks report nothing more: the checkpoints that are complete all the same, and the rows
  // that waited.
  void Close();

  bool finished(int rank) const { return ranks_[static_cast<size_t>(rank)].finished.has_value(); }
  // Whether every rank has finished, and none because it was stopped.
  bool did_its_work() const;
  // Steps that all ranks have done.
  int64_t steps_done() const;
  // Last step that a rank has begun, as far as it has said; 0 before the first.
  int64_t StepBegun(int rank) const;

 private:
  // What is known of a rank.
  struct Rank {
    bool ready = false;
    std::optional<accel::internal::v1::Finished> finished;
    // Last step done.
    int64_t step = 0;
  };

  void Record(const WrittenCheckpoint& written);
  // The rows that wait for no step any more; with `all` the others too.
  void RecordHeld(bool all);

  JobRecord& record_;
  std::vector<Rank> ranks_;
  int64_t total_steps_ = 0;
  int64_t first_step_ = 0;
  StepAggregator steps_;
  // Rows of one rank that wait for the steps before them, in order.
  std::deque<accel::v1::MetricRecord> held_;
  CheckpointCollector checkpoints_;
};

}  // namespace accel::supervisor

#endif  // ACCEL_SERVER_SUPERVISOR_TRAINING_REPORTS_H_
