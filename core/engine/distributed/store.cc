#include "core/engine/distributed/store.h"

#include <future>
#include <thread>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "core/engine/loop/failure.h"

namespace accel::engine {
namespace {

using accel::internal::v1::StartAttempt;
using std::chrono::milliseconds;

// How long the ranks that did not come are asked for once the time is over.
constexpr milliseconds kAskTimeout{1000};
// How much later than TCPStore's own limit of a connection this one is.
constexpr milliseconds kSlack{500};

std::string ArrivalKey(int rank) { return absl::StrCat("accel/arrived/", rank); }

c10::intrusive_ptr<c10d::Store> Connect(const StartAttempt& start) {
  if (!start.store_file().empty()) {
    return c10::make_intrusive<c10d::FileStore>(start.store_file(), start.world_size());
  }
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(start.store_port());
  options.isServer = start.rank() == 0;
  options.numWorkers = static_cast<size_t>(start.world_size());
  options.waitWorkers = false;
  options.timeout = GroupTimeout(start);
  if (options.isServer) options.masterListenFd = start.store_listen_fd();
  return c10::make_intrusive<c10d::TCPStore>(start.store_host(), options);
}

// As Connect. TCPStore's client waits without end for the answer of a server that took its
// connection: here it is given up after the timeout. The worker ends then, and the thread with it.
c10::intrusive_ptr<c10d::Store> ConnectInTime(const StartAttempt& start) {
  if (start.rank() == 0 || !start.store_file().empty()) return Connect(start);
  std::packaged_task<c10::intrusive_ptr<c10d::Store>()> task([start] { return Connect(start); });
  std::future<c10::intrusive_ptr<c10d::Store>> connected = task.get_future();
  std::thread(std::move(task)).detach();
  if (connected.wait_for(GroupTimeout(start) + kSlack) != std::future_status::ready) {
    C10_THROW_ERROR(DistStoreError, "rank 0, which hosts the store, does not answer");
  }
  return connected.get();
}

// The ranks that have not arrived, in words.
std::string Missing(c10d::Store& store, int world_size) {
  std::vector<int> missing;
  try {
    store.setTimeout(kAskTimeout);
    for (int rank = 0; rank < world_size; ++rank) {
      if (!store.check({ArrivalKey(rank)})) missing.push_back(rank);
    }
  } catch (const std::exception&) {
    return "rank 0, which hosts the store, does not answer";
  }
  return absl::StrCat(missing.size() == 1 ? "rank " : "ranks ", absl::StrJoin(missing, ", "),
                      " did not come");
}

}  // namespace

milliseconds GroupTimeout(const StartAttempt& start) {
  const auto& timeout = start.resolved_accelerator().init_process_group_kwargs().timeout();
  return milliseconds(timeout.seconds() * 1000 + timeout.nanos() / 1'000'000);
}

std::string StoreName(const StartAttempt& start) {
  if (!start.store_file().empty()) return start.store_file();
  return absl::StrCat(start.store_host(), ":", start.store_port());
}

c10::intrusive_ptr<c10d::Store> OpenStore(const StartAttempt& start) {
  const milliseconds timeout = GroupTimeout(start);
  const std::string what =
      absl::StrCat("rendezvous of ", start.world_size(), " ranks at ", StoreName(start),
                   ", timeout ", absl::FormatDuration(absl::Milliseconds(timeout.count())));
  c10::intrusive_ptr<c10d::Store> store;
  try {
    store = ConnectInTime(start);
    store->setTimeout(timeout);
    store->set(ArrivalKey(start.rank()), std::vector<uint8_t>{1});
    std::vector<std::string> arrivals;
    for (int rank = 0; rank < start.world_size(); ++rank) arrivals.push_back(ArrivalKey(rank));
    store->wait(arrivals, timeout);
    return store;
  } catch (const std::exception&) {
    std::string text(StatusOfCurrentException(what).message());
    if (store != nullptr) absl::StrAppend(&text, ": ", Missing(*store, start.world_size()));
    C10_THROW_ERROR(DistStoreError, text);
  }
}

}  // namespace accel::engine
