// The real program, driven over its channel as a supervisor does.
#include "server/worker/worker.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "accel/internal/v1/worker.pb.h"
#include "core/base/fd.h"
#include "core/base/message_channel.h"
#include "core/base/process.h"

namespace accel::worker {
namespace {

namespace fs = std::filesystem;
using accel::internal::v1::Cut;
using accel::internal::v1::FromWorker;
using accel::internal::v1::StartAttempt;
using accel::internal::v1::ToWorker;
using accel::internal::v1::WorkerReport;
using ::testing::HasSubstr;

// One worker process and its channel.
class WorkerProcess {
 public:
  WorkerProcess(const StartAttempt& start, int listen_fd) {
    auto sockets = MakeSocketPair();
    EXPECT_TRUE(sockets.ok());
    ProcessOptions options;
    options.argv = {ACCEL_WORKER_PROGRAM};
    options.descriptors = {{sockets->second.get(), 3}};
    if (listen_fd >= 0) options.descriptors.emplace_back(listen_fd, kListenFd);
    auto pid = ProcessLauncher::Real().Spawn(options);
    EXPECT_TRUE(pid.ok()) << pid.status();
    pid_ = *pid;
    channel_ = std::make_unique<MessageChannel>(std::move(sockets->first));
    ToWorker message;
    *message.mutable_start() = start;
    EXPECT_TRUE(channel_->Send(message).ok());
  }

  ~WorkerProcess() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  static constexpr int kListenFd = 4;

  void Prepare(int64_t cut_id) {
    ToWorker message;
    message.mutable_prepare_cut()->set_cut_id(cut_id);
    EXPECT_TRUE(channel_->Send(message).ok());
  }

  void Act(int64_t cut_id, int64_t tick, Cut::Action action) {
    ToWorker message;
    message.mutable_cut()->set_cut_id(cut_id);
    message.mutable_cut()->set_tick(tick);
    message.mutable_cut()->set_action(action);
    EXPECT_TRUE(channel_->Send(message).ok());
  }

  // Reads until a report for which `wanted` holds and returns it; empty at the channel's end.
  WorkerReport Await(const std::function<bool(const WorkerReport&)>& wanted) {
    for (;;) {
      for (; next_ < reports_.size(); ++next_) {
        if (wanted(reports_[next_])) return reports_[next_++];
      }
      FromWorker batch;
      if (!channel_->Receive(&batch).ok()) return {};
      reports_.insert(reports_.end(), batch.reports().begin(), batch.reports().end());
    }
  }

  int64_t AwaitCutReply() {
    return Await([](const WorkerReport& report) { return report.has_cut_reply(); })
        .cut_reply()
        .ticks_begun();
  }

  void CloseChannel() { channel_.reset(); }

  // The process's end as waitpid gives it.
  int Wait() {
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return status;
  }

  std::vector<double> Losses() const {
    std::vector<double> losses;
    for (const WorkerReport& report : reports_) {
      if (report.has_step()) losses.push_back(report.step().loss());
    }
    return losses;
  }

 private:
  pid_t pid_ = -1;
  std::unique_ptr<MessageChannel> channel_;
  std::vector<WorkerReport> reports_;
  size_t next_ = 0;
};

bool IsFinished(const WorkerReport& report) { return report.has_finished(); }
bool IsReady(const WorkerReport& report) { return report.has_ready(); }
bool IsCheckpoint(const WorkerReport& report) { return report.has_checkpoint(); }
bool IsFailure(const WorkerReport& report) { return report.has_failure(); }

class WorkerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = (fs::temp_directory_path() / "accel-worker-XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    folder_ = path;
    std::ofstream csv(folder_ / "train.csv");
    for (int i = 0; i < 64; ++i) {
      csv << (i * 7 % 64) / 30.0 << "," << (i * 5 % 64) / 40.0 << "," << i % 2 << "\n";
    }
    auto* spec = start_.mutable_spec();
    for (int size : {2, 16, 2}) spec->mutable_model()->mutable_mlp()->add_layer_sizes(size);
    spec->mutable_model()->mutable_mlp()->set_dropout(0.25);
    spec->mutable_data()->mutable_train()->set_file("data/train.csv");
    spec->mutable_data()->mutable_train()->mutable_csv();
    spec->mutable_data()->set_batch_size(4);  // 8 steps an epoch with 2 ranks
    spec->mutable_loss()->mutable_cross_entropy();
    spec->mutable_optimizer()->mutable_adam()->set_lr(0.01);
    spec->mutable_loop()->set_num_epochs(4);
    spec->mutable_loop()->set_num_cpu_threads_per_process(1);
    auto* resolved = start_.mutable_resolved_accelerator();
    resolved->set_step_scheduler_with_optimizer(true);
    resolved->mutable_ddp_kwargs()->set_broadcast_buffers(true);
    resolved->mutable_ddp_kwargs()->set_bucket_cap_mb(25);
    resolved->mutable_init_process_group_kwargs()->set_backend("gloo");
    resolved->mutable_init_process_group_kwargs()->mutable_timeout()->set_seconds(60);
    resolved->mutable_dataloader_config()->set_even_batches(true);
    (*start_.mutable_data_roots())["data"] = folder_;
    start_.set_checkpoints_dir(folder_ / "checkpoints");
    start_.set_store_host("127.0.0.1");
  }
  void TearDown() override {
    ranks_.clear();
    fs::remove_all(folder_);
  }

  // Starts ranks 0 to `count` - 1 of `world_size`.
  void Start(int world_size, int count) {
    listener_ = Fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    ASSERT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    ASSERT_EQ(listen(listener_.get(), 16), 0);
    ASSERT_EQ(getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    start_.set_store_port(ntohs(address.sin_port));
    start_.set_world_size(world_size);
    ranks_.clear();
    for (int rank = 0; rank < count; ++rank) {
      start_.set_rank(rank);
      start_.set_store_listen_fd(rank == 0 ? WorkerProcess::kListenFd : -1);
      ranks_.push_back(std::make_unique<WorkerProcess>(start_, rank == 0 ? listener_.get() : -1));
    }
  }
  void Start(int world_size) { Start(world_size, world_size); }

  // The supervisor's part of a cut.
  int64_t CutAll(int64_t cut_id, Cut::Action action) {
    for (auto& rank : ranks_) rank->Prepare(cut_id);
    int64_t tick = 0;
    for (auto& rank : ranks_) tick = std::max(tick, rank->AwaitCutReply());
    for (auto& rank : ranks_) rank->Act(cut_id, tick, action);
    return tick;
  }

  void ExpectFinished(int64_t step) {
    for (auto& rank : ranks_) {
      const WorkerReport last = rank->Await(IsFinished);
      EXPECT_TRUE(last.has_finished());
      EXPECT_EQ(last.finished().step(), step);
      EXPECT_EQ(rank->Wait(), 0);
    }
  }

  std::string FileText(const fs::path& path) {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  fs::path folder_;
  StartAttempt start_;
  Fd listener_;
  std::vector<std::unique_ptr<WorkerProcess>> ranks_;
};

TEST_F(WorkerTest, TwoRanksTrainToTheEnd) {
  Start(2);
  ExpectFinished(32);
  EXPECT_EQ(ranks_[0]->Losses().size(), 32);
  EXPECT_EQ(ranks_[1]->Losses().size(), 32);
  EXPECT_NE(ranks_[0]->Losses(), ranks_[1]->Losses());
  EXPECT_TRUE(fs::exists(folder_ / "checkpoints" / "0" / "random_states_1.safetensors"));
}

TEST_F(WorkerTest, CutsActAtTheSameStepAndResumingIsExact) {
  start_.mutable_spec()->mutable_loop()->set_num_epochs(4000);
  Start(2);
  for (auto& rank : ranks_) rank->Await(IsReady);
  const int64_t step = CutAll(1, Cut::CHECKPOINT);  // without evaluation a tick is a step
  ASSERT_GT(step, 0);
  for (auto& rank : ranks_) {
    const WorkerReport saved = rank->Await(IsCheckpoint);
    EXPECT_EQ(saved.checkpoint().step(), step);
    EXPECT_EQ(saved.checkpoint().number(), 0);
  }
  const int64_t stop = CutAll(2, Cut::STOP);
  EXPECT_GE(stop, step);
  for (auto& rank : ranks_) {
    const WorkerReport last = rank->Await(IsFinished);
    EXPECT_TRUE(last.finished().stopped());
    EXPECT_EQ(last.finished().step(), stop);
    EXPECT_EQ(rank->Wait(), 0);
  }

  // To the end of the cut's epoch, from the start and from the checkpoint.
  const int64_t epochs = step / 8 + 1;
  start_.mutable_spec()->mutable_loop()->set_num_epochs(static_cast<int32_t>(epochs));
  fs::rename(folder_ / "checkpoints", folder_ / "cut");
  Start(2);
  ExpectFinished(epochs * 8);
  const std::string uninterrupted = FileText(folder_ / "checkpoints" / "0" / "model.safetensors");
  const std::vector<std::vector<double>> losses{ranks_[0]->Losses(), ranks_[1]->Losses()};
  fs::remove_all(folder_ / "checkpoints");
  start_.set_resume_dir(folder_ / "cut" / "0");
  Start(2);
  ExpectFinished(epochs * 8);
  EXPECT_EQ(FileText(folder_ / "checkpoints" / "0" / "model.safetensors"), uninterrupted);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(ranks_[rank]->Losses(),
              std::vector<double>(losses[rank].begin() + step, losses[rank].end()));
  }
}

TEST_F(WorkerTest, StopsWhileItWaitsForAnotherRank) {
  Start(/*world_size=*/2, /*count=*/1);
  CutAll(1, Cut::STOP);
  const WorkerReport last = ranks_[0]->Await(IsFinished);
  EXPECT_TRUE(last.finished().stopped());
  EXPECT_EQ(ranks_[0]->Wait(), 0);
}

TEST_F(WorkerTest, EndsAtOnceWhenTheSupervisorIsGone) {
  start_.mutable_spec()->mutable_loop()->set_num_epochs(1000000);
  Start(2);
  for (auto& rank : ranks_) rank->Await(IsReady);
  for (auto& rank : ranks_) rank->CloseChannel();
  for (auto& rank : ranks_) {
    const int status = rank->Wait();
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), kExitLost);
  }
}

TEST_F(WorkerTest, AKilledPeerIsAFailureOfTheCollective) {
  start_.mutable_spec()->mutable_loop()->set_num_epochs(1000000);
  Start(2);
  for (auto& rank : ranks_) rank->Await(IsReady);
  ranks_.pop_back();  // kills rank 1
  const WorkerReport last = ranks_[0]->Await(IsFailure);
  EXPECT_EQ(last.failure().cause(), accel::v1::Failure::COLLECTIVE) << last.DebugString();
  EXPECT_FALSE(last.failure().message().empty());
  EXPECT_EQ(WEXITSTATUS(ranks_[0]->Wait()), kExitFailed);
}

TEST_F(WorkerTest, SaysWhyItFailed) {
  std::ofstream(folder_ / "train.csv", std::ios::app) << "1,two,0\n";
  Start(1);
  const WorkerReport last = ranks_[0]->Await(IsFailure);
  EXPECT_EQ(last.failure().cause(), accel::v1::Failure::DATA);
  EXPECT_THAT(last.failure().message(), HasSubstr("65"));
  EXPECT_EQ(WEXITSTATUS(ranks_[0]->Wait()), kExitFailed);
}

}  // namespace
}  // namespace accel::worker
