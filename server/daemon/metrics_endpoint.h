#ifndef ACCEL_SERVER_DAEMON_METRICS_ENDPOINT_H_
#define ACCEL_SERVER_DAEMON_METRICS_ENDPOINT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "prometheus/exposer.h"
#include "prometheus/registry.h"
#include "server/daemon/address.h"

namespace accel::daemon {

// The HTTP endpoint `/metrics`.
class MetricsEndpoint {
 public:
  // Listens on `address`; port 0 takes any free one. ALREADY_EXISTS with reason ADDRESS_IN_USE.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Start(
      const Address& address, const std::shared_ptr<prometheus::Registry>& registry);

  // Closes the endpoint; scrapes that are being answered are finished.
  ~MetricsEndpoint();

  // With the port that was bound.
  const Address& address() const { return address_; }

 private:
  MetricsEndpoint(Address address, std::unique_ptr<prometheus::Exposer> exposer)
      : address_(std::move(address)), exposer_(std::move(exposer)) {}

  const Address address_;
  std::unique_ptr<prometheus::Exposer> exposer_;
};

}  // namespace accel::daemon

#endif  // ACCEL_SERVER_DAEMON_METRICS_ENDPOINT_H_
