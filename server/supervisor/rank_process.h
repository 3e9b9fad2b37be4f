#ifndef ACCEL_SERVER_SUPERVISOR_RANK_PROCESS_H_
#define ACCEL_SERVER_SUPERVISOR_RANK_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "accel/v1/telemetry.pb.h"
#include "core/base/fd.h"
#include "core/base/process.h"
#include "server/supervisor/event_loop.h"
#include "server/supervisor/line_splitter.h"
#include "server/supervisor/message_connection.h"
#include "server/supervisor/rank_handle.h"

namespace accel::supervisor {

// What a rank's process is started with.
struct RankOptions {
  int rank = 0;
  std::string worker_path;
  // The whole environment, `NAME=value`.
  std::vector<std::string> environment;
  // Listening socket of the store, which the process gets as kStoreListenFd; -1 for none.
  int store_listen_fd = -1;
};

// The process of one rank: its channel, its output and its end.
class RankProcess final : public RankHandle {
 public:
  // The process's numbers for its descriptors.
  static constexpr int kChannelFd = 3;
  static constexpr int kStoreListenFd = 4;

  // Starts the process. `loop` and `observer` must outlive the result. An error leaves no process.
  static absl::StatusOr<std::unique_ptr<RankProcess>> Start(EventLoop& loop,
                                                            ProcessLauncher& launcher,
                                                            const RankOptions& options,
                                                            WorkerObserver& observer);

  // Kills and reaps a process that still runs.
  ~RankProcess() override;
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  int rank() const override { return rank_; }
  int64_t pid() const override { return pid_; }
  bool running() const override { return pidfd_.valid(); }

  void Send(const accel::internal::v1::ToWorker& message) override;
  void CloseChannel() override;
  void Kill() override;

 private:
  // A pipe from the process.
  struct Output {
    Fd pipe;
    accel::v1::LogRecord::Source source;
    LineSplitter splitter;
  };

  RankProcess(EventLoop& loop, WorkerObserver& observer, int rank, pid_t pid, Fd pidfd, Fd channel,
              Fd out, Fd err);

  void OnChannelReady(short revents);
  absl::Status ReadChannel();
  void EndChannel(const absl::Status& status);
  // False at the end of the pipe.
  bool ReadOutput(Output& output, size_t max_bytes);
  void EndOutput(Output& output);
  void OnProcessEnd();

  EventLoop& loop_;
  WorkerObserver& observer_;
  const int rank_;
  const pid_t pid_;
  Fd pidfd_;
  MessageConnection channel_;
  bool channel_open_ = true;
  Output outputs_[2];
};

}  // namespace accel::supervisor

#endif  // ACCEL_SERVER_SUPERVISOR_RANK_PROCESS_H_
