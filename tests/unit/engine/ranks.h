#ifndef ACCEL_TESTS_UNIT_ENGINE_RANKS_H_
#define ACCEL_TESTS_UNIT_ENGINE_RANKS_H_

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <functional>
#include <thread>
#include <vector>

#include "accel/internal/v1/worker.pb.h"
#include "core/engine/distributed/process_group.h"

namespace accel::engine {

// A listening socket on a free loopback port. The store of rank 0 takes the descriptor over.
inline int Listen(int* port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(listen(fd, 16), 0);
  EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  *port = ntohs(address.sin_port);
  return fd;
}

// What the ranks of a group of `world_size` are started with.
inline std::vector<accel::internal::v1::StartAttempt> MakeStarts(int world_size,
                                                                 int timeout_seconds = 60) {
  int port = 0;
  const int fd = world_size > 1 ? Listen(&port) : -1;
  std::vector<accel::internal::v1::StartAttempt> starts(world_size);
  for (int rank = 0; rank < world_size; ++rank) {
    auto& start = starts[rank];
    start.set_rank(rank);
    start.set_world_size(world_size);
    start.set_store_host("127.0.0.1");
    start.set_store_port(port);
    start.set_store_listen_fd(rank == 0 ? fd : -1);
    auto* resolved = start.mutable_resolved_accelerator();
    resolved->set_step_scheduler_with_optimizer(true);
    auto* ddp = resolved->mutable_ddp_kwargs();
    ddp->set_broadcast_buffers(true);
    ddp->set_bucket_cap_mb(25);
    auto* group = resolved->mutable_init_process_group_kwargs();
    group->set_backend("gloo");
    group->mutable_timeout()->set_seconds(timeout_seconds);
    resolved->mutable_dataloader_config()->set_even_batches(true);
  }
  return starts;
}

// Runs `function` for each rank of a group, each in a thread of its own.
inline void RunRanks(const std::vector<accel::internal::v1::StartAttempt>& starts,
                     const std::function<void(Communicator&)>& function) {
  std::vector<std::thread> threads;
  for (const auto& start : starts) {
    threads.emplace_back([&start, &function] {
      auto communicator = Communicator::Connect(start, at::kCPU, nullptr);
      ASSERT_TRUE(communicator.ok()) << communicator.status();
      function(**communicator);
      (*communicator)->Finish();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

inline void RunRanks(int world_size, const std::function<void(Communicator&)>& function) {
  RunRanks(MakeStarts(world_size), function);
}

}  // namespace accel::engine

#endif  // ACCEL_TESTS_UNIT_ENGINE_RANKS_H_
