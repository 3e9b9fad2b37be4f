// Stands in for accel-supervisor in tests of the daemon: keeps a real record and speaks on the real
// control socket, but trains nothing. Labels of the job say what it does:
//   fake/rows   rows of metrics, each with a line of log (default 10)
//   fake/bytes  length of a text in each row (default 0)
//   fake/pause  milliseconds between two rows (default 0)
//   fake/end    SUCCEEDED or FAILED after the last row, STAY until it is stopped (default
//               SUCCEEDED), EXIT without a word
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "accel/internal/v1/supervisor.pb.h"
#include "core/base/files.h"
#include "core/base/message_channel.h"
#include "core/base/status_macros.h"
#include "core/record/writer.h"
#include "google/protobuf/util/time_util.h"

namespace accel {
namespace {

using accel::v1::Job;
using google::protobuf::util::TimeUtil;

google::protobuf::Timestamp Now() {
  return TimeUtil::MicrosecondsToTimestamp(absl::ToUnixMicros(absl::Now()));
}

class FakeSupervisor {
 public:
  explicit FakeSupervisor(std::filesystem::path job_dir) : job_dir_(std::move(job_dir)) {}

  absl::Status Run() {
    ACCEL_RETURN_IF_ERROR(Open());
    ACCEL_RETURN_IF_ERROR(ChangeState(Job::STARTING));
    ACCEL_RETURN_IF_ERROR(StartTraining());
    const int64_t rows = Number("rows", 10);
    for (int64_t step = 1; step <= rows && !stopped_; ++step) {
      ACCEL_RETURN_IF_ERROR(WriteStep(step));
      ACCEL_RETURN_IF_ERROR(Serve(static_cast<int>(Number("pause", 0))));
    }
    const std::string end = Label("end", "SUCCEEDED");
    if (end == "EXIT") _exit(7);
    while (end == "STAY" && !stopped_) ACCEL_RETURN_IF_ERROR(Serve(-1));
    if (stopped_) return ChangeState(Job::CANCELLED);
    if (end == "FAILED") {
      status_.mutable_failure()->set_cause(accel::v1::Failure::DATA);
      status_.mutable_failure()->set_message("no such row");
      return ChangeState(Job::FAILED);
    }
    return ChangeState(Job::SUCCEEDED);
  }

 private:
  std::string Label(const std::string& name, const std::string& otherwise) const {
    const auto& labels = launch_.job().spec().labels();
    const auto found = labels.find("fake/" + name);
    return found == labels.end() ? otherwise : found->second;
  }
  int64_t Number(const std::string& name, int64_t otherwise) const {
    int64_t number = otherwise;
    return absl::SimpleAtoi(Label(name, ""), &number) ? number : otherwise;
  }

  absl::Status Open() {
    ACCEL_ASSIGN_OR_RETURN(const std::string bytes,
                           FileSystem::Real().Read(job_dir_ / "launch.pb"));
    if (!launch_.ParseFromString(bytes)) return absl::DataLossError("launch.pb cannot be read");
    ACCEL_ASSIGN_OR_RETURN(writer_, record::Writer::Open(job_dir_ / "job.db"));
    if (chdir(job_dir_.c_str()) != 0) return ErrnoStatus("cannot enter", job_dir_, errno);
    unlink("control.sock");
    listener_.Reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, "control.sock");
    if (bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
        listen(listener_.get(), 4) != 0) {
      return ErrnoStatus("cannot listen in", job_dir_, errno);
    }
    return absl::OkStatus();
  }

  absl::Status StartTraining() {
    accel::v1::Attempt* const attempt = status_.add_attempts();
    attempt->set_number(1);
    *attempt->mutable_start_time() = Now();
    status_.mutable_progress()->set_total_steps(Number("rows", 10));
    accel::v1::EventRecord event;
    *event.mutable_time() = Now();
    event.set_attempt(1);
    *event.mutable_training_started() = status_.progress();
    ACCEL_RETURN_IF_ERROR(writer_->Append(std::move(event)).status());
    return ChangeState(Job::RUNNING);
  }

  absl::Status ChangeState(Job::State state) {
    accel::v1::EventRecord event;
    *event.mutable_time() = Now();
    event.mutable_state_changed()->set_from(status_.state());
    event.mutable_state_changed()->set_to(state);
    ACCEL_RETURN_IF_ERROR(writer_->Append(std::move(event)).status());
    status_.set_state(state);
    if (state == Job::SUCCEEDED || state == Job::FAILED || state == Job::CANCELLED) {
      status_.set_end_time_us(absl::ToUnixMicros(absl::Now()));
    }
    return Publish();
  }

  absl::Status WriteStep(int64_t step) {
    accel::v1::MetricRecord row;
    *row.mutable_time() = Now();
    row.set_step(step);
    row.set_attempt(1);
    const auto set = [&](const char* key, double value) {
      (*row.mutable_values())[key].set_number(value);
    };
    set("train/loss", 1.0 / static_cast<double>(step));
    set("train/learning_rate", 0.5);
    set("perf/step_seconds", 0.25);
    set("perf/samples_per_second", 80);
    if (const int64_t bytes = Number("bytes", 0); bytes > 0) {
      (*row.mutable_values())["note"].set_text(std::string(static_cast<size_t>(bytes), 'x'));
    }
    ACCEL_RETURN_IF_ERROR(writer_->Append(std::move(row)).status());
    accel::v1::LogRecord line;
    *line.mutable_time() = Now();
    line.set_rank(static_cast<int32_t>(step % 2));
    line.set_source(accel::v1::LogRecord::STDOUT);
    line.set_text(absl::StrCat("step ", step));
    ACCEL_RETURN_IF_ERROR(writer_->Append(std::move(line)).status());
    status_.mutable_progress()->set_step(step);
    return Publish();
  }

  absl::Status WriteCheckpoint() {
    const int64_t number = next_checkpoint_++;
    accel::v1::Checkpoint checkpoint;
    checkpoint.set_name(absl::StrCat(launch_.job().name(), "/checkpoints/", number));
    checkpoint.set_step(status_.progress().step());
    checkpoint.set_bytes(1000);
    checkpoint.set_path((job_dir_ / "checkpoints" / absl::StrCat(number)).string());
    std::filesystem::create_directories(checkpoint.path());
    ACCEL_RETURN_IF_ERROR(writer_->AddCheckpoint(checkpoint));
    accel::v1::EventRecord event;
    *event.mutable_time() = Now();
    event.set_attempt(1);
    event.mutable_checkpoint_written()->set_name(checkpoint.name());
    event.mutable_checkpoint_written()->set_bytes(checkpoint.bytes());
    event.mutable_checkpoint_written()->set_stall_seconds(0.02);
    ACCEL_RETURN_IF_ERROR(writer_->Append(std::move(event)).status());
    return Publish();
  }

  absl::Status Publish() {
    ACCEL_RETURN_IF_ERROR(writer_->SetStatus(status_));
    ACCEL_RETURN_IF_ERROR(writer_->Commit());
    for (const auto& client : clients_) Tell(client.get());
    return absl::OkStatus();
  }

  void Tell(MessageChannel* client) {
    accel::internal::v1::FromSupervisor message;
    *message.mutable_status() = status_;
    message.set_last_sequence(writer_->last_sequence());
    client->Send(message).IgnoreError();
  }

  absl::Status Serve(int timeout_ms) {
    std::vector<pollfd> polled = {{listener_.get(), POLLIN, 0}};
    for (const auto& client : clients_) polled.push_back({client->fd(), POLLIN, 0});
    poll(polled.data(), polled.size(), timeout_ms);
    for (size_t i = clients_.size(); i-- > 0;) {
      if (polled[i + 1].revents == 0) continue;
      accel::internal::v1::ToSupervisor message;
      if (!clients_[i]->Receive(&message).ok()) {
        clients_.erase(clients_.begin() + static_cast<std::ptrdiff_t>(i));
        continue;
      }
      if (message.has_stop()) stopped_ = true;
      if (message.has_checkpoint()) ACCEL_RETURN_IF_ERROR(WriteCheckpoint());
    }
    if (polled[0].revents != 0) {
      Fd client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      clients_.push_back(std::make_unique<MessageChannel>(std::move(client)));
      Tell(clients_.back().get());
    }
    return absl::OkStatus();
  }

  const std::filesystem::path job_dir_;
  accel::internal::v1::JobLaunch launch_;
  accel::internal::v1::JobStatus status_;
  std::unique_ptr<record::Writer> writer_;
  Fd listener_;
  std::vector<std::unique_ptr<MessageChannel>> clients_;
  int64_t next_checkpoint_ = 1;
  bool stopped_ = false;
};

}  // namespace
}  // namespace accel

int main(int argc, char** argv) {
  if (argc != 3 || std::strcmp(argv[1], "--job_dir") != 0) return 2;
  const absl::Status status = accel::FakeSupervisor(argv[2]).Run();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
