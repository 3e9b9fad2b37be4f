#ifndef ACCEL_TESTS_UNIT_SUPERVISOR_JOB_FIXTURE_H_
#define ACCEL_TESTS_UNIT_SUPERVISOR_JOB_FIXTURE_H_

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "accel/internal/v1/supervisor.pb.h"
#include "core/base/fd.h"
#include "core/base/files.h"
#include "core/base/message_channel.h"
#include "core/base/process.h"
#include "core/record/reader.h"
#include "gtest/gtest.h"

namespace accel::supervisor {

// A new folder, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "accel_test_XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// One job in a folder of its own, run by the real accel-supervisor with fake workers, and the
// daemon's end of its control socket.
class JobRunner {
 public:
  JobRunner() = default;
  JobRunner(const JobRunner&) = delete;
  ~JobRunner() { Kill(); }

  // Ends the supervisor by force.
  void Kill() {
    if (supervisor_ < 0) return;
    kill(supervisor_, SIGKILL);
    waitpid(supervisor_, nullptr, 0);
    supervisor_ = -1;
  }

  // Ends the job by force and takes a new folder; the launch stays.
  void Reset() {
    Kill();
    folder_ = std::make_unique<TemporaryFolder>();
  }

  using Status = accel::internal::v1::JobStatus;

  // `labels`: see fake_worker.cc.
  void WriteLaunch(int ranks, const std::map<std::string, std::string>& labels) {
    accel::v1::Job& job = *launch_.mutable_job();
    job.set_name("jobs/test");
    job.mutable_spec()->set_num_processes(ranks);
    job.mutable_spec()->mutable_labels()->insert(labels.begin(), labels.end());
    if (launch_.worker_path().empty()) launch_.set_worker_path(ACCEL_FAKE_WORKER);
    (*launch_.mutable_worker_environment())["ACCEL_TEST"] = "yes";
    ASSERT_TRUE(
        FileSystem::Real().WriteDurably(dir() / "launch.pb", launch_.SerializeAsString()).ok());
  }

  void StartSupervisor() {
    auto pid =
        ProcessLauncher::Real().Spawn({.argv = {ACCEL_SUPERVISOR, "--job_dir", dir().string()},
                                       .environment = {"PATH=/usr/bin", "ACCEL_OF_SUPERVISOR=1"},
                                       .descriptors = {},
                                       .new_session = true});
    ASSERT_TRUE(pid.ok()) << pid.status();
    supervisor_ = *pid;
  }

  void Start(int ranks, const std::map<std::string, std::string>& labels) {
    WriteLaunch(ranks, labels);
    StartSupervisor();
  }

  // Waits for the supervisor's end; returns its exit code, or minus its signal.
  int WaitForExit() {
    int status = 0;
    EXPECT_EQ(waitpid(supervisor_, &status, 0), supervisor_);
    supervisor_ = -1;
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }

  // A connection to the control socket, once there is one.
  std::unique_ptr<MessageChannel> Connect() {
    const std::string path = (dir() / "control.sock").string();
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    for (;;) {
      Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
        return std::make_unique<MessageChannel>(std::move(socket));
      }
      poll(nullptr, 0, 1);
    }
  }

  // Reads what the supervisor says until it satisfies `condition`. Fails at the end of the channel.
  Status Await(MessageChannel& channel, const std::function<bool(const Status&)>& condition) {
    accel::internal::v1::FromSupervisor message;
    do {
      const absl::Status received = channel.Receive(&message);
      if (!received.ok()) {
        ADD_FAILURE() << received << "\n" << message.ShortDebugString() << "\n" << Log();
        break;
      }
    } while (!condition(message.status()));
    return message.status();
  }

  Status AwaitState(MessageChannel& channel, accel::v1::Job::State state) {
    return Await(channel, [state](const Status& status) { return status.state() == state; });
  }

  Status AwaitWorkers(MessageChannel& channel) {
    return Await(channel, [](const Status& status) { return status.attempts_size() == 1; });
  }

  static void SendStop(MessageChannel& channel, double grace_seconds) {
    accel::internal::v1::ToSupervisor message;
    message.mutable_stop()->set_grace_seconds(grace_seconds);
    ASSERT_TRUE(channel.Send(message).ok());
  }

  static void SendCheckpoint(MessageChannel& channel) {
    accel::internal::v1::ToSupervisor message;
    message.mutable_checkpoint();
    ASSERT_TRUE(channel.Send(message).ok());
  }

  // Runs the job to its end; the supervisor must exit with 0.
  Status RunToEnd(int ranks, const std::map<std::string, std::string>& labels) {
    Start(ranks, labels);
    EXPECT_EQ(WaitForExit(), 0) << Log();
    const Status status = RecordedStatus();
    ExpectNoWorkers(status);
    return status;
  }

  Status RecordedStatus() {
    auto status = Reader()->ReadStatus();
    EXPECT_TRUE(status.ok()) << status.status();
    return status.ok() ? *status : Status();
  }

  std::vector<accel::v1::EventRecord> Events() { return Reader()->ReadEvents(0, kAll)->records; }
  std::vector<accel::v1::MetricRecord> Metrics() { return Reader()->ReadMetrics(0, kAll)->records; }
  std::vector<accel::v1::LogRecord> Logs() { return Reader()->ReadLogs(0, kAll)->records; }
  // Lines of a rank's stream.
  std::vector<std::string> Lines(int rank, accel::v1::LogRecord::Source source) {
    std::vector<std::string> lines;
    for (const accel::v1::LogRecord& record : Logs()) {
      if (record.has_rank() && record.rank() == rank && record.source() == source) {
        lines.push_back(record.text());
      }
    }
    return lines;
  }

  // States that the job went through, the first one included.
  std::vector<accel::v1::Job::State> States() {
    std::vector<accel::v1::Job::State> states;
    for (const accel::v1::EventRecord& event : Events()) {
      if (!event.has_state_changed()) continue;
      if (states.empty()) states.push_back(event.state_changed().from());
      EXPECT_EQ(event.state_changed().from(), states.back());
      states.push_back(event.state_changed().to());
    }
    return states;
  }

  std::unique_ptr<record::Reader> Reader() {
    auto reader = record::Reader::Open(dir() / "job.db");
    EXPECT_TRUE(reader.ok()) << reader.status();
    return *std::move(reader);
  }

  // Handles of the workers' processes, which they keep even after the supervisor's end.
  static std::vector<Fd> Handles(const Status& status) {
    std::vector<Fd> handles;
    for (const auto& worker : status.attempts(0).workers()) {
      handles.emplace_back(static_cast<int>(syscall(SYS_pidfd_open, worker.pid(), 0)));
      EXPECT_TRUE(handles.back().valid());
    }
    return handles;
  }

  static void ExpectNoWorkers(const Status& status) {
    for (const auto& attempt : status.attempts()) {
      for (const auto& worker : attempt.workers()) {
        EXPECT_NE(kill(static_cast<pid_t>(worker.pid()), 0), 0) << "rank " << worker.rank();
      }
    }
  }

  void MakeFifo(const std::string& name) { ASSERT_EQ(mkfifo((dir() / name).c_str(), 0600), 0); }

  std::string Log() { return FileSystem::Real().Read(dir() / "supervisor.log").value_or(""); }

  const std::filesystem::path& dir() const { return folder_->path(); }

  static constexpr record::ReadLimits kAll{.rows = 10000000, .bytes = int64_t{1} << 40};

  accel::internal::v1::JobLaunch launch_;
  pid_t supervisor_ = -1;

 private:
  std::unique_ptr<TemporaryFolder> folder_ = std::make_unique<TemporaryFolder>();
};

class JobTest : public testing::Test, protected JobRunner {};

}  // namespace accel::supervisor

#endif  // ACCEL_TESTS_UNIT_SUPERVISOR_JOB_FIXTURE_H_
