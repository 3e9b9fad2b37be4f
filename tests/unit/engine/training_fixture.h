#ifndef ACCEL_TESTS_UNIT_ENGINE_TRAINING_FIXTURE_H_
#define ACCEL_TESTS_UNIT_ENGINE_TRAINING_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/engine/checkpoint/safetensors.h"
#include "core/engine/loop/training.h"
#include "tests/unit/engine/ranks.h"

namespace accel::engine {

namespace fs = std::filesystem;
using accel::internal::v1::Finished;
using accel::internal::v1::StartAttempt;
using accel::internal::v1::WorkerReport;
using accel::v1::Failure;

// Decides by the number of ticks begun.
class ScriptedGate : public TickGate {
 public:
  using Script = std::function<Decision(int64_t)>;
  explicit ScriptedGate(Script script) : script_(std::move(script)) {}
  Decision BeginTick() override {
    const Decision decision = script_ ? script_(ticks_) : Decision{};
    if (!decision.stop) ++ticks_;
    return decision;
  }
  bool StopRequested() const override { return stop_at_start; }

  bool stop_at_start = false;
  int64_t ticks_ = 0;

 private:
  const Script script_;
};

class Reports : public TrainingObserver {
 public:
  void OnReport(WorkerReport report) override { all.push_back(std::move(report)); }

  std::vector<double> Losses() const {
    std::vector<double> losses;
    for (const auto& report : all) {
      if (report.has_step()) losses.push_back(report.step().loss());
    }
    return losses;
  }
  std::vector<std::string> Warnings() const {
    std::vector<std::string> texts;
    for (const auto& report : all) {
      if (report.has_warning()) {
        texts.push_back(absl::StrCat(report.warning().subject(), ": ", report.warning().message()));
      }
    }
    return texts;
  }
  // Step and number of each checkpoint.
  std::vector<std::pair<int64_t, int64_t>> Checkpoints() const {
    std::vector<std::pair<int64_t, int64_t>> saved;
    for (const auto& report : all) {
      if (report.has_checkpoint()) {
        saved.emplace_back(report.checkpoint().step(), report.checkpoint().number());
      }
    }
    return saved;
  }
  std::vector<int64_t> MetricSteps() const {
    std::vector<int64_t> steps;
    for (const auto& report : all) {
      if (report.has_metrics()) steps.push_back(report.metrics().step());
    }
    return steps;
  }

  std::vector<WorkerReport> all;
};

class TrainingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = (fs::temp_directory_path() / "accel-training-XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    folder_ = path;
    std::ofstream csv(folder_ / "train.csv");
    for (int i = 0; i < 24; ++i) {
      csv << (i * 7 % 24) / 10.0 << "," << (i * 5 % 24) / 12.0 << "," << i % 2 << "\n";
    }
    start_ = MakeStarts(1)[0];
    (*start_.mutable_data_roots())["data"] = folder_;
    start_.set_checkpoints_dir(folder_ / "checkpoints");
    auto* spec = start_.mutable_spec();
    for (int size : {2, 8, 2}) spec->mutable_model()->mutable_mlp()->add_layer_sizes(size);
    spec->mutable_model()->mutable_mlp()->set_dropout(0.3);
    auto* data = spec->mutable_data();
    data->mutable_train()->set_file("data/train.csv");
    data->mutable_train()->mutable_csv();
    data->mutable_split()->set_evaluation_fraction(0.25);
    data->set_batch_size(4);  // 18 training samples: 5 steps an epoch
    spec->mutable_loss()->mutable_cross_entropy();
    spec->mutable_optimizer()->mutable_adamw()->set_lr(0.05);
    spec->mutable_schedule()->mutable_cosine()->set_warmup_steps(3);
    spec->mutable_loop()->set_num_epochs(3);
    spec->mutable_loop()->set_num_cpu_threads_per_process(1);
  }
  void TearDown() override { fs::remove_all(folder_); }

  Finished Run(const StartAttempt& start, Reports* reports, ScriptedGate::Script script = {}) {
    ScriptedGate gate(std::move(script));
    auto finished = RunTraining(start, gate, *reports);
    EXPECT_TRUE(finished.ok()) << finished.status();
    return finished.ok() ? *finished : Finished();
  }

  // Runs start_ as `world_size` ranks, one thread each.
  std::vector<absl::StatusOr<Finished>> RunRanks(int world_size, std::vector<Reports>* reports,
                                                 const ScriptedGate::Script& script = {}) {
    auto starts = MakeStarts(world_size);
    std::vector<absl::StatusOr<Finished>> results(static_cast<size_t>(world_size));
    reports->assign(static_cast<size_t>(world_size), Reports());
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < starts.size(); ++rank) {
      StartAttempt full = start_;
      full.MergeFrom(starts[rank]);
      // What the test has set stands over a rank's defaults.
      full.mutable_resolved_accelerator()->MergeFrom(start_.resolved_accelerator());
      starts[rank] = full;
      threads.emplace_back([&, rank] {
        ScriptedGate gate(script);
        results[rank] = RunTraining(starts[rank], gate, (*reports)[rank]);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return results;
  }

  void ResumeFrom(const std::string& checkpoint, int64_t next) {
    start_.set_resume_dir(folder_ / "checkpoints" / checkpoint);
    start_.set_next_checkpoint(next);
  }

  absl::Status Fail(const StartAttempt& start) {
    ScriptedGate gate({});
    Reports reports;
    return RunTraining(start, gate, reports).status();
  }

  void Accumulate(int num_steps, bool sync_with_dataloader) {
    auto* plugin = start_.mutable_resolved_accelerator()->mutable_gradient_accumulation_plugin();
    plugin->set_num_steps(num_steps);
    plugin->set_sync_with_dataloader(sync_with_dataloader);
  }

  NamedTensors Weights(const std::string& checkpoint) {
    auto tensors = ReadSafetensors(folder_ / "checkpoints" / checkpoint / "model.safetensors");
    EXPECT_TRUE(tensors.ok()) << tensors.status();
    return tensors.ok() ? *tensors : NamedTensors();
  }

  fs::path folder_;
  StartAttempt start_;
};

// Gradients overflow in the first steps, and again whenever the scale has grown.
inline void ScaleLoss(accel::v1::AcceleratorConfig* config) {
  config->set_mixed_precision("fp16");
  auto* scaler = config->mutable_scaler_kwargs();
  scaler->set_init_scale(1 << 24);
  scaler->set_growth_factor(2);
  scaler->set_backoff_factor(0.5);
  scaler->set_growth_interval(2);
  scaler->set_enabled(true);
}

inline void ExpectSame(const NamedTensors& a, const NamedTensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].first, b[i].first);
    EXPECT_TRUE(at::equal(a[i].second, b[i].second)) << a[i].first;
  }
}

}  // namespace accel::engine

#endif  // ACCEL_TESTS_UNIT_ENGINE_TRAINING_FIXTURE_H_
