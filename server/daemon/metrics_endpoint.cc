#include "server/daemon/metrics_endpoint.h"

#include <exception>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "core/base/status_macros.h"

namespace accel::daemon {

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Start(
    const Address& address, const std::shared_ptr<prometheus::Registry>& registry) {
  ACCEL_RETURN_IF_ERROR(ProbeAddress(address));
  // The library throws when it cannot listen, without a reason that a program could read.
  try {
    auto exposer = std::make_unique<prometheus::Exposer>(address.ToString());
    exposer->RegisterCollectable(registry);
    Address bound = address;
    bound.port = exposer->GetListeningPorts().at(0);
    return std::unique_ptr<MetricsEndpoint>(
        new MetricsEndpoint(std::move(bound), std::move(exposer)));
  } catch (const std::exception& error) {
    ACCEL_RETURN_IF_ERROR(ProbeAddress(address));
    return absl::InternalError(
        absl::StrCat("cannot listen on ", address.ToString(), ": ", error.what()));
  }
}

// The library's listener looks only every two seconds whether it should end, or after a connection.
MetricsEndpoint::~MetricsEndpoint() {
  absl::Notification closed;
  std::thread closing([&] {
    exposer_.reset();
    closed.Notify();
  });
  while (!closed.WaitForNotificationWithTimeout(absl::Milliseconds(20))) TouchAddress(address_);
  closing.join();
}

}  // namespace accel::daemon
