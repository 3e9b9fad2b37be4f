#include "core/tracking/comet/messages.h"

#include <map>

#include "core/base/utf8.h"

namespace accel::tracking::comet {

using accel::v1::MetricValue;

void AddMessages(const LogCall& call, Messages* messages, Omissions* omissions) {
  const int64_t time_ms = Milliseconds(call.time);
  for (const auto& [key, value] : call.values) {
    switch (value.value_case()) {
      case MetricValue::kNumber:
        messages->metrics.push_back({RepairUtf8(key), value.number(), call.step, time_ms});
        break;
      case MetricValue::kText:
        messages->others.emplace_back(RepairUtf8(key), RepairUtf8(value.text()));
        break;
      case MetricValue::kMap: {
        // protobuf's own order differs from run to run.
        const std::map<std::string, double> sorted(value.map().values().begin(),
                                                   value.map().values().end());
        for (const auto& [name, number] : sorted) {
          messages->metrics.push_back({RepairUtf8(name), number, call.step, time_ms});
        }
        break;
      }
      case MetricValue::VALUE_NOT_SET:
        omissions->Note(key, "has no value, left out");
        break;
    }
  }
}

int64_t Milliseconds(absl::Time time) { return absl::ToUnixMillis(time); }

}  // namespace accel::tracking::comet
