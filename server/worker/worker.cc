#include "server/worker/worker.h"

#include <c10/util/Logging.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "core/base/message_channel.h"
#include "core/base/status_macros.h"
#include "core/engine/loop/training.h"
#include "server/worker/cut_gate.h"
#include "server/worker/outbox.h"

namespace accel::worker {
namespace {

using accel::internal::v1::Finished;
using accel::internal::v1::StartAttempt;
using accel::internal::v1::ToWorker;
using accel::internal::v1::WorkerReport;

// For how long a rank that is stopped while it starts may take to end in order: it may be waiting
// for a rank that has already ended.
constexpr absl::Duration kStopGrace = absl::Seconds(1);

[[noreturn]] void Exit(int code) {
  std::fflush(nullptr);
  _exit(code);
}

// One line for the rank's log. (spdlog needs the system's fmt, and LibTorch's headers bring
// another.)
void LogError(absl::string_view text) {
  std::fputs(absl::StrCat("accel-worker: ", text, "\n").c_str(), stderr);
}

[[noreturn]] void Lost(const absl::Status& status) {
  // The channel's orderly end is how a job is ended by force: no error of this process.
  if (!absl::IsOutOfRange(status)) LogError(absl::StrCat("supervisor lost: ", status.ToString()));
  Exit(kExitLost);
}

// Private memory of this process, as JobSpec.memory_limit_bytes says.
absl::Status LimitMemory(const StartAttempt& start) {
  if (!start.spec().has_memory_limit_bytes()) return absl::OkStatus();
  const auto bytes = static_cast<rlim_t>(start.spec().memory_limit_bytes());
  const rlimit limit{.rlim_cur = bytes, .rlim_max = bytes};
  if (setrlimit(RLIMIT_DATA, &limit) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot limit memory to ", bytes, " bytes"));
}

class Worker {
 public:
  explicit Worker(Fd socket) : channel_(std::move(socket)), outbox_(channel_, Lost) {}

  [[noreturn]] void Run() {
    ToWorker first;
    if (const absl::Status received = channel_.Receive(&first); !received.ok()) Lost(received);
    if (!first.has_start()) Lost(absl::DataLossError("first message is not a start"));
    std::thread([this] { Control(); }).detach();
    if (const absl::Status limited = LimitMemory(first.start()); !limited.ok()) Fail(limited);
    absl::StatusOr<Finished> finished = engine::RunTraining(first.start(), gate_, outbox_);
    if (finished.ok()) Conclude(*std::move(finished));
    Fail(finished.status());
  }

 private:
  // Sends the last report and ends the process. The first caller wins.
  [[noreturn]] void End(WorkerReport report, int code) {
    if (ending_.exchange(true)) {
      for (;;) pause();
    }
    outbox_.OnUrgentReport(std::move(report));
    outbox_.Close();
    Exit(code);
  }

  [[noreturn]] void Conclude(Finished finished) {
    WorkerReport report;
    *report.mutable_finished() = std::move(finished);
    End(std::move(report), kExitFinished);
  }

  [[noreturn]] void Fail(const absl::Status& status) {
    WorkerReport report;
    auto* failure = report.mutable_failure();
    failure->set_cause(engine::CauseOf(status));
    failure->set_message(std::string(status.message()));
    failure->set_step(engine::StepOf(status));
    LogError(failure->message());
    End(std::move(report), kExitFailed);
  }

  [[noreturn]] void Control() {
    std::optional<absl::Duration> deadline;
    for (;;) {
      if (!Readable(deadline)) ConcludeStopped();
      ToWorker message;
      if (const absl::Status received = channel_.Receive(&message); !received.ok()) Lost(received);
      if (const absl::Status handled = Handle(message); !handled.ok()) Lost(handled);
      if (gate_.StoppedBeforeFirstTick()) {
        deadline = Clock::Real().Monotonic() + kStopGrace;
      }
    }
  }

  // Waits for a message or the channel's end; false where `deadline` comes first.
  bool Readable(std::optional<absl::Duration> deadline) const {
    for (;;) {
      int timeout_ms = -1;
      if (deadline.has_value()) {
        const absl::Duration left = *deadline - Clock::Real().Monotonic();
        if (left <= absl::ZeroDuration()) return false;
        timeout_ms = static_cast<int>(absl::ToInt64Milliseconds(left)) + 1;
      }
      pollfd poll_fd{.fd = channel_.fd(), .events = POLLIN, .revents = 0};
      const int ready = poll(&poll_fd, 1, timeout_ms);
      if (ready > 0 || (ready < 0 && errno != EINTR)) return true;
    }
  }

  absl::Status Handle(const ToWorker& message) {
    switch (message.message_case()) {
      case ToWorker::kPrepareCut: {
        WorkerReport report;
        auto* reply = report.mutable_cut_reply();
        reply->set_cut_id(message.prepare_cut().cut_id());
        reply->set_ticks_begun(gate_.Prepare(message.prepare_cut().cut_id()));
        outbox_.OnUrgentReport(std::move(report));
        return absl::OkStatus();
      }
      case ToWorker::kCut:
        return gate_.Apply(message.cut());
      default:
        return absl::DataLossError(
            absl::StrCat("unexpected message ", static_cast<int>(message.message_case())));
    }
  }

  [[noreturn]] void ConcludeStopped() {
    Finished finished;
    finished.set_stopped(true);
    Conclude(std::move(finished));
  }

  MessageChannel channel_;
  CutGate gate_;
  std::atomic<bool> ending_ = false;
  Outbox outbox_;
};

}  // namespace

void RunWorker(Fd socket) {
  setenv("TORCH_CPP_LOG_LEVEL", "ERROR", /*overwrite=*/0);
  c10::initLogging();
  Worker(std::move(socket)).Run();
}

}  // namespace accel::worker
