#include "server/supervisor/training_reports.h"

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/supervisor/memory_writer.h"

namespace accel::supervisor {
namespace {

using testing::ElementsAre;

class TrainingReportsTest : public testing::Test {
 protected:
  void Step(int rank, int64_t step) {
    accel::internal::v1::StepReport report;
    report.set_step(step);
    reports_.OnStep(rank, report);
  }

  void Evaluation(int64_t step) {
    accel::internal::v1::MetricReport report;
    report.set_step(step);
    reports_.OnMetrics(report);
  }

  // The rows of metrics so far, by step.
  std::vector<std::string> Rows() {
    record_.Commit();
    std::vector<std::string> rows = contents_.rows;
    std::erase_if(rows, [](const std::string& row) { return !absl::StartsWith(row, "metric"); });
    return rows;
  }

  EventLoop loop_;
  MemoryWriter::Contents contents_;
  JobRecord record_{loop_, Clock::Real(), std::make_unique<MemoryWriter>(&contents_),
                    accel::internal::v1::JobStatus(), [] {}};
  TrainingReports reports_{2, "jobs/j", "/nonexistent", record_};
};

TEST_F(TrainingReportsTest, AnEvaluationComesAfterTheStepsBeforeIt) {
  for (const int64_t step : {1, 2}) Step(0, step);
  Evaluation(2);
  Step(0, 3);
  Evaluation(3);
  EXPECT_THAT(Rows(), ElementsAre());
  for (const int64_t step : {1, 2}) Step(1, step);
  EXPECT_THAT(Rows(), ElementsAre("metric 1", "metric 2", "metric 2"));
  Step(1, 3);
  EXPECT_THAT(Rows(), ElementsAre("metric 1", "metric 2", "metric 2", "metric 3", "metric 3"));
  Evaluation(3);
  EXPECT_EQ(Rows().size(), 6u);
}

TEST_F(TrainingReportsTest, WhatWaitsAtTheEndIsKept) {
  Step(0, 1);
  Evaluation(1);
  reports_.Close();
  EXPECT_THAT(Rows(), ElementsAre("metric 1"));
}

}  // namespace
}  // namespace accel::supervisor
