#ifndef ACCEL_CORE_ENGINE_DISTRIBUTED_STORE_H_
#define ACCEL_CORE_ENGINE_DISTRIBUTED_STORE_H_

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <string>

#include "accel/internal/v1/worker.pb.h"

namespace c10d {
class Store;
}  // namespace c10d

namespace accel::engine {

// Time limit of every collective and of the store.
std::chrono::milliseconds GroupTimeout(const accel::internal::v1::StartAttempt& start);

// Where the ranks of `start` meet: `<ip>:<port>`, or a file.
std::string StoreName(const accel::internal::v1::StartAttempt& start);

// Opens the store of `start`'s ranks and waits until all of them have. Rank 0 hosts a TCPStore and
// takes its listening descriptor over. Throws a c10::DistError that names the store, the timeout
// and the ranks that did not come.
c10::intrusive_ptr<c10d::Store> OpenStore(const accel::internal::v1::StartAttempt& start);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_DISTRIBUTED_STORE_H_
