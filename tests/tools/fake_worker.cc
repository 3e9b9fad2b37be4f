// A worker without LibTorch for tests of the supervisor: speaks worker.proto and does what the
// job's label `rank<n>`, or else `all`, says: actions separated by ";", in order.
//
//   ready               reports Ready with 1000 steps
//   step:N              does N steps, one tick and one report each
//   steps_until_cut     steps of a millisecond until a cut with STOP
//   checkpoint:N        writes checkpoint N of the job's folder and reports it; N+1 removes N
//   print:N             prints N lines to stdout
//   environment         prints the environment, one variable a line
//   child               starts a process that keeps stdout, stderr and the channel open, prints id
//   warn                reports a warning
//   fail:CAUSE          reports a failure
//   fits:N              reports lack of memory and exits where the batch size is above N
//   finish              reports Finished
//   finish_early        reports Finished because of a condition of the job
//   notify:NAME         waits until a rank waits for NAME (a FIFO in the job's folder)
//   wait:NAME           waits until a rank notifies NAME
//   exit:CODE           exits
//   signal:N            ends on a signal
//   garbage             sends what is no message
//   torn                sends half a message
//   deaf                takes no notice of messages and of the channel's end from here on
//   hang                does nothing more
//
// At the end of the actions it exits with 0.

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "accel/internal/v1/worker.pb.h"
#include "core/base/clock.h"
#include "core/base/files.h"
#include "core/base/message_channel.h"

namespace {

namespace fs = std::filesystem;
using accel::Clock;
using accel::internal::v1::Cut;
using accel::internal::v1::FromWorker;
using accel::internal::v1::StartAttempt;
using accel::internal::v1::ToWorker;
using accel::internal::v1::WorkerReport;

constexpr int kChannelFd = 3;
constexpr int64_t kTotalSteps = 1000;

// The rank's end of cuts.
class Gate {
 public:
  int64_t Prepare() {
    absl::MutexLock lock(&mutex_);
    ++preparing_;
    return ticks_;
  }

  void Apply(const Cut& cut) {
    absl::MutexLock lock(&mutex_);
    --preparing_;
    (cut.action() == Cut::STOP ? stop_tick_ : checkpoint_tick_) = cut.tick();
  }

  struct Decision {
    bool checkpoint;
    bool stop;
  };
  Decision BeginTick() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](int* preparing) { return *preparing == 0; }, &preparing_));
    const Decision decision{checkpoint_tick_ == ticks_, stop_tick_ == ticks_};
    if (decision.checkpoint) checkpoint_tick_ = -1;
    if (!decision.stop) ++ticks_;
    return decision;
  }

 private:
  absl::Mutex mutex_;
  int64_t ticks_ = 0;
  int preparing_ = 0;
  int64_t stop_tick_ = -1;
  int64_t checkpoint_tick_ = -1;
};

class FakeWorker {
 public:
  FakeWorker() : channel_(accel::Fd(kChannelFd)) {}

  int Run() {
    ToWorker first;
    if (!channel_.Receive(&first).ok() || !first.has_start()) return 2;
    start_ = first.start();
    checkpoints_ = start_.checkpoints_dir();
    next_checkpoint_ = start_.next_checkpoint();
    std::thread([this] { Listen(); }).detach();
    const auto& labels = start_.spec().labels();
    auto script = labels.find(absl::StrCat("rank", start_.rank()));
    if (script == labels.end()) script = labels.find("all");
    for (const std::string& action :
         std::vector<std::string>(absl::StrSplit(script->second, ';'))) {
      const std::vector<std::string> parts = absl::StrSplit(action, absl::MaxSplits(':', 1));
      Act(parts[0], parts.size() > 1 ? parts[1] : "");
    }
    return 0;
  }

 private:
  void Listen() {
    for (;;) {
      ToWorker message;
      const absl::Status status = channel_.Receive(&message);
      if (deaf_) {
        if (status.ok()) continue;
        return;
      }
      if (!status.ok()) _exit(2);
      if (message.has_prepare_cut()) {
        WorkerReport report;
        report.mutable_cut_reply()->set_cut_id(message.prepare_cut().cut_id());
        report.mutable_cut_reply()->set_ticks_begun(gate_.Prepare());
        Send(report);
      } else if (message.has_cut()) {
        gate_.Apply(message.cut());
      }
    }
  }

  void Act(const std::string& action, const std::string& argument) {
    int64_t number = 0;
    const bool has_number = absl::SimpleAtoi(argument, &number);
    if (action == "ready") {
      WorkerReport report;
      report.mutable_ready()->set_total_steps(kTotalSteps);
      report.mutable_ready()->set_total_epochs(2);
      Send(report);
    } else if (action == "step" && has_number) {
      for (int64_t i = 0; i < number && !stopped_; ++i) Step();
    } else if (action == "steps_until_cut") {
      while (!stopped_) {
        absl::SleepFor(absl::Milliseconds(1));
        Step();
      }
    } else if (action == "checkpoint" && has_number) {
      Checkpoint(number);
    } else if (action == "print" && has_number) {
      for (int64_t i = 1; i <= number; ++i) std::printf("line %ld\n", static_cast<long>(i));
      std::fflush(stdout);
    } else if (action == "environment") {
      for (char** variable = environ; *variable != nullptr; ++variable) std::puts(*variable);
      std::fflush(stdout);
    } else if (action == "child") {
      const pid_t child = fork();
      while (child == 0) pause();
      std::printf("%d\n", child);
    } else if (action == "warn") {
      WorkerReport report;
      report.mutable_warning()->set_subject("accelerator.ddp_kwargs.dim");
      report.mutable_warning()->set_message("no effect");
      Send(report);
    } else if (action == "fail") {
      Fail(argument);
    } else if (action == "fits" && has_number) {
      if (start_.spec().data().batch_size() <= number) return;
      Fail("OUT_OF_MEMORY");
      _exit(1);
    } else if (action == "finish" || action == "finish_early") {
      WorkerReport report;
      report.mutable_finished()->set_step(step_);
      report.mutable_finished()->set_stopped(stopped_);
      if (action == "finish_early") {
        auto* stopped = report.mutable_finished()->mutable_early_stopped();
        stopped->set_step(step_);
        stopped->set_metric("eval/loss");
        stopped->set_reason("eval/loss has reached 1 with 0.5");
      }
      Send(report);
    } else if (action == "notify" || action == "wait") {
      Meet(argument, action == "notify" ? O_WRONLY : O_RDONLY);
    } else if (action == "exit" && has_number) {
      std::fflush(stdout);
      _exit(static_cast<int>(number));
    } else if (action == "signal" && has_number) {
      kill(getpid(), static_cast<int>(number));
    } else if (action == "garbage") {
      // A length that no message may have.
      SendRaw("\xff\xff\xff\xff");
    } else if (action == "torn") {
      SendRaw(std::string("\x10\0\0\0half", 8));
    } else if (action == "deaf") {
      deaf_ = true;
    } else if (action == "hang") {
      for (;;) pause();
    } else {
      std::fprintf(stderr, "no such action: %s:%s\n", action.c_str(), argument.c_str());
      _exit(99);
    }
  }

  void Step() {
    const Gate::Decision decision = gate_.BeginTick();
    if (decision.checkpoint) Checkpoint(next_checkpoint_++);
    stopped_ = decision.stop;
    if (stopped_) return;
    WorkerReport report;
    auto* step = report.mutable_step();
    step->set_step(++step_);
    step->set_loss(start_.rank() + 1);
    step->set_samples(start_.rank() == 0 ? 3 : 1);
    step->set_learning_rate(0.5);
    step->set_step_seconds(0.25);
    step->set_time_us(accel::NowMicros(Clock::Real()));
    Send(report);
  }

  void Checkpoint(int64_t number) {
    const fs::path folder = checkpoints_ / absl::StrCat(number);
    WorkerReport report;
    auto* checkpoint = report.mutable_checkpoint();
    checkpoint->set_number(number);
    checkpoint->set_step(step_);
    checkpoint->set_stall_seconds(start_.rank() + 0.5);
    if (start_.local_rank() == 0) {
      fs::create_directories(folder);
      const absl::Status written = accel::FileSystem::Real().WriteDurably(
          folder / "manifest.json",
          R"({"files": [{"path": "model.safetensors", "bytes": 12, "sha256": "abcd"}]})");
      if (!written.ok()) _exit(98);
      checkpoint->set_bytes(12);
      checkpoint->set_time_us(accel::NowMicros(Clock::Real()));
      if (fs::remove_all(checkpoints_ / absl::StrCat(number - 1)) > 0) {
        checkpoint->add_removed(number - 1);
      }
    }
    Send(report);
  }

  void Fail(const std::string& cause) {
    WorkerReport report;
    accel::v1::Failure::Cause value;
    if (!accel::v1::Failure::Cause_Parse(cause, &value)) _exit(97);
    report.mutable_failure()->set_cause(value);
    report.mutable_failure()->set_message("something broke");
    report.mutable_failure()->set_step(step_);
    Send(report);
  }

  // Opening a FIFO returns when its other end is opened too.
  void Meet(const std::string& name, int flags) {
    const fs::path path = checkpoints_.parent_path() / name;
    if (open(path.c_str(), flags) < 0) _exit(96);
  }

  void Send(const WorkerReport& report) {
    FromWorker batch;
    *batch.add_reports() = report;
    // The supervisor's end is noticed by Listen.
    channel_.Send(batch).IgnoreError();
  }

  void SendRaw(const std::string& bytes) {
    if (send(kChannelFd, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) _exit(95);
  }

  accel::MessageChannel channel_;
  StartAttempt start_;
  Gate gate_;
  fs::path checkpoints_;
  int64_t next_checkpoint_ = 0;
  int64_t step_ = 0;
  bool stopped_ = false;
  std::atomic<bool> deaf_ = false;
};

}  // namespace

int main() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  static auto* const worker = new FakeWorker;
  const int code = worker->Run();
  std::fflush(stdout);
  // The listening thread still runs.
  _exit(code);
}
