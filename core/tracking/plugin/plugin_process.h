#ifndef ACCEL_CORE_TRACKING_PLUGIN_PLUGIN_PROCESS_H_
#define ACCEL_CORE_TRACKING_PLUGIN_PLUGIN_PROCESS_H_

#include <sys/types.h>

#include <filesystem>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "accel/internal/v1/tracker_plugin.pb.h"
#include "core/base/message_channel.h"
#include "core/base/process.h"

namespace accel::tracking {

// Number of the channel's descriptor in the process of a plug-in.
inline constexpr int kPluginChannelFd = 3;
// The program of such a process, `<program> --tracker_plugin_host <path> --sha256 <digest>`: loads
// the plug-in and serves it on that descriptor.
inline constexpr char kPluginHostFlag[] = "--tracker_plugin_host";
inline constexpr char kPluginDigestFlag[] = "--sha256";

// The process that holds a plug-in. Used by one thread.
class PluginProcess {
 public:
  static absl::StatusOr<std::unique_ptr<PluginProcess>> Start(
      const std::filesystem::path& program, const accel::internal::v1::TrackerPlugin& plugin,
      ProcessLauncher* launcher, absl::Duration limit);
  // Ends the process.
  ~PluginProcess();

  // The plug-in's answer as a status: permanent where it refuses. UNAVAILABLE when the process has
  // ended or has not answered within the limit; it is of no use then.
  absl::Status Call(const accel::internal::v1::ToTrackerPlugin& call);

  // Whether a Call may succeed.
  bool usable() const { return usable_; }

 private:
  PluginProcess(pid_t pid, Fd channel, absl::Duration limit)
      : pid_(pid), channel_(std::move(channel)), limit_(limit) {}

  absl::Status Lost(const absl::Status& why);
  // Whether the process has ended after a moment, and how.
  bool EndsSoon(int* status);
  void Kill();

  pid_t pid_;
  MessageChannel channel_;
  const absl::Duration limit_;
  bool usable_ = true;
};

}  // namespace accel::tracking

#endif  // ACCEL_CORE_TRACKING_PLUGIN_PLUGIN_PROCESS_H_
