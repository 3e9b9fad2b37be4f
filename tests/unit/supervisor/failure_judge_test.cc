#include "server/supervisor/failure_judge.h"

#include <csignal>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace accel::supervisor {
namespace {

using accel::internal::v1::WorkerFailure;
using accel::v1::Failure;
using testing::ElementsAre;
using testing::SizeIs;

WorkerFailure Report(Failure::Cause cause, const std::string& message, int64_t step) {
  WorkerFailure failure;
  failure.set_cause(cause);
  failure.set_message(message);
  failure.set_step(step);
  return failure;
}

// waitpid's statuses.
int Signalled(int signal) { return signal; }
int Exited(int code) { return code << 8; }

TEST(FailureJudgeTest, NoVerdictWithoutAFailure) {
  FailureJudge judge;
  judge.OnExit({.rank = 0, .wait_status = Exited(0), .finished = true, .step = 10});
  EXPECT_FALSE(judge.failed());
  EXPECT_FALSE(judge.Verdict().has_value());
}

TEST(FailureJudgeTest, FirstOwnCauseIsKept) {
  FailureJudge judge;
  judge.OnReport(2, Report(Failure::COLLECTIVE, "peer is gone", 9));
  judge.OnReport(1, Report(Failure::STORAGE, "disk is full", 9));
  judge.OnExit({.rank = 0, .wait_status = Signalled(SIGSEGV), .step = 10});
  const Failure verdict = *judge.Verdict();
  EXPECT_EQ(verdict.cause(), Failure::STORAGE);
  EXPECT_EQ(verdict.rank(), 1);
  EXPECT_EQ(verdict.step(), 9);
  EXPECT_EQ(verdict.message(), "rank 1 failed at step 9: disk is full");
  EXPECT_THAT(verdict.later(), ElementsAre("rank 2 failed at step 9: peer is gone",
                                           "rank 0 exited on signal 11 at step 10"));
}

TEST(FailureJudgeTest, AFailedCollectiveNamesTheRanksItWaitedFor) {
  FailureJudge judge;
  judge.OnReport(0, Report(Failure::COLLECTIVE, "all-reduce number 3 timed out", 9));
  judge.OnSilence(0, 9);
  judge.OnSilence(1, 8);
  EXPECT_EQ(
      judge.Verdict()->message(),
      "rank 0 failed at step 9: all-reduce number 3 timed out; no word from rank 1 at step 8");
  judge.OnReport(2, Report(Failure::STORAGE, "disk is full", 9));
  EXPECT_EQ(judge.Verdict()->message(), "rank 2 failed at step 9: disk is full");
}

TEST(FailureJudgeTest, ExitAfterAReportIsTheSameFailure) {
  FailureJudge judge;
  judge.OnReport(0, Report(Failure::DATA, "row 3", 0));
  judge.OnExit({.rank = 0, .wait_status = Exited(1)});
  EXPECT_EQ(judge.failed_ranks(), 1);
  EXPECT_EQ(judge.Verdict()->cause(), Failure::DATA);
  EXPECT_FALSE(judge.Verdict()->has_step());
  EXPECT_EQ(judge.Verdict()->later_size(), 0);
}

TEST(FailureJudgeTest, OutOfMemoryKillerIsToldFromAUsersKill) {
  FailureJudge judge;
  judge.OnExit({.rank = 1, .wait_status = Signalled(SIGKILL), .out_of_memory = true, .step = 412});
  judge.OnExit({.rank = 0, .wait_status = Signalled(SIGTERM), .out_of_memory = true, .step = 412});
  const Failure verdict = *judge.Verdict();
  EXPECT_EQ(verdict.cause(), Failure::OUT_OF_MEMORY);
  EXPECT_EQ(verdict.signal(), SIGKILL);
  EXPECT_EQ(verdict.message(),
            "rank 1 exited on signal 9 at step 412, ended by the out-of-memory killer");
  EXPECT_THAT(verdict.later(), ElementsAre("rank 0 exited on signal 15 at step 412"));
}

TEST(FailureJudgeTest, LaterFailuresAreBounded) {
  FailureJudge judge;
  for (int rank = 0; rank < 200; ++rank) {
    judge.OnExit({.rank = rank, .wait_status = Exited(1), .step = 1});
  }
  EXPECT_EQ(judge.failed_ranks(), 200);
  EXPECT_THAT(judge.Verdict()->later(), SizeIs(64));
}

}  // namespace
}  // namespace accel::supervisor
