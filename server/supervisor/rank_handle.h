#ifndef ACCEL_SERVER_SUPERVISOR_RANK_HANDLE_H_
#define ACCEL_SERVER_SUPERVISOR_RANK_HANDLE_H_

#include <string>

#include "absl/status/status.h"
#include "accel/internal/v1/worker.pb.h"
#include "accel/v1/telemetry.pb.h"

namespace accel::supervisor {

// Learns what the workers do, in the loop's thread.
class WorkerObserver {
 public:
  virtual ~WorkerObserver() = default;
  virtual void OnReport(int rank, const accel::internal::v1::WorkerReport& report) = 0;
  virtual void OnLine(int rank, accel::v1::LogRecord::Source source, std::string text,
                      bool truncated) = 0;
  // The rank will report nothing more, though its process was not seen to end: OUT_OF_RANGE or
  // UNAVAILABLE when it closed the channel, DATA_LOSS when it sent what is no message.
  virtual void OnChannelEnd(int rank, const absl::Status& status) = 0;
  // The process ended and is reaped; all that it reported and wrote has been handed over. The last
  // call for this rank.
  virtual void OnExit(int rank, int wait_status) = 0;
  // The machine that the rank runs on is out of reach. The last call for this rank.
  virtual void OnLost(int rank, const std::string& why) = 0;
};

// One rank of an attempt, on this machine or another.
class RankHandle {
 public:
  virtual ~RankHandle() = default;

  virtual int rank() const = 0;
  // Process id on this machine; 0 on another.
  virtual int64_t pid() const = 0;
  // Whether its process has not been reaped yet.
  virtual bool running() const = 0;
  // Whether its machine's kernel ended a process for lack of memory before this one's end; false on
  // this machine, whose counter is read here.
  virtual bool saw_out_of_memory() const { return false; }

  // Never blocks. A message to a process that is gone is lost: its end is reported anyway.
  virtual void Send(const accel::internal::v1::ToWorker& message) = 0;
  // The worker reads the end of its channel and exits.
  virtual void CloseChannel() = 0;
  // SIGKILL, to this very process even if its number is used again.
  virtual void Kill() = 0;
};

}  // namespace accel::supervisor

#endif  // ACCEL_SERVER_SUPERVISOR_RANK_HANDLE_H_
