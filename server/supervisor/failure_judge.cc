#include "server/supervisor/failure_judge.h"

#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/process.h"

namespace accel::supervisor {

using accel::internal::v1::WorkerFailure;
using accel::v1::Failure;

namespace {

constexpr int kMaxLater = 64;

std::string AtStep(int64_t step) {
  return step > 0 ? absl::StrCat("at step ", step) : "before the first step";
}

}  // namespace

bool FailureJudge::Knows(int rank) const {
  return std::any_of(failures_.begin(), failures_.end(),
                     [rank](const Failure& failure) { return failure.rank() == rank; });
}

void FailureJudge::OnReport(int rank, const WorkerFailure& report) {
  if (Knows(rank)) return;
  Failure failure;
  failure.set_cause(report.cause());
  failure.set_rank(rank);
  if (report.step() > 0) failure.set_step(report.step());
  failure.set_message(
      absl::StrCat("rank ", rank, " failed ", AtStep(report.step()), ": ", report.message()));
  failures_.push_back(std::move(failure));
}

void FailureJudge::OnExit(const RankExit& exit) {
  if (Knows(exit.rank)) return;
  const bool signalled = WIFSIGNALED(exit.wait_status);
  const int code = WEXITSTATUS(exit.wait_status);
  if (exit.finished && !signalled && code == 0) return;
  Failure failure;
  failure.set_rank(exit.rank);
  if (exit.step > 0) failure.set_step(exit.step);
  std::string message = absl::StrCat("rank ", exit.rank, " ", DescribeWaitStatus(exit.wait_status),
                                     " ", AtStep(exit.step));
  if (signalled) {
    const int signal = WTERMSIG(exit.wait_status);
    const bool out_of_memory = signal == SIGKILL && exit.out_of_memory;
    failure.set_cause(out_of_memory ? Failure::OUT_OF_MEMORY : Failure::SIGNAL);
    failure.set_signal(signal);
    if (out_of_memory) message += ", ended by the out-of-memory killer";
  } else {
    failure.set_cause(Failure::EXIT);
    failure.set_exit_code(code);
  }
  if (exit.finished) {
    message += ", after it had finished";
  } else if (!signalled && code == 0) {
    message += ", before it had finished";
  }
  failure.set_message(std::move(message));
  failures_.push_back(std::move(failure));
}

void FailureJudge::OnSilence(int rank, int64_t step) {
  if (!Knows(rank)) silent_.push_back(absl::StrCat("rank ", rank, " ", AtStep(step)));
}

std::optional<Failure> FailureJudge::Verdict() const {
  if (failures_.empty()) return std::nullopt;
  auto first = std::find_if(failures_.begin(), failures_.end(), [](const Failure& failure) {
    return failure.cause() != Failure::COLLECTIVE;
  });
  if (first == failures_.end()) first = failures_.begin();
  Failure verdict = *first;
  if (verdict.cause() == Failure::COLLECTIVE && !silent_.empty()) {
    verdict.set_message(
        absl::StrCat(verdict.message(), "; no word from ", absl::StrJoin(silent_, ", ")));
  }
  for (auto it = failures_.begin(); it != failures_.end() && verdict.later_size() < kMaxLater;
       ++it) {
    if (it != first) verdict.add_later(it->message());
  }
  return verdict;
}

}  // namespace accel::supervisor
