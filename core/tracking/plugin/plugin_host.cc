#include "core/tracking/plugin/plugin_host.h"

#include <utility>
#include <vector>

#include "accel/internal/v1/tracker_plugin.pb.h"
#include "core/base/message_channel.h"
#include "core/base/status_macros.h"

namespace accel::tracking {
namespace {

using accel::internal::v1::FromTrackerPlugin;
using accel::internal::v1::PluginRow;
using accel::internal::v1::PluginRun;
using accel::internal::v1::PluginValue;
using accel::internal::v1::ToTrackerPlugin;

constexpr size_t kMaxErrorBytes = 1024;

const char* TextOrNull(const std::string& text) { return text.empty() ? nullptr : text.c_str(); }

accel_value ToC(const PluginValue& value) {
  accel_value c = {};
  c.key = value.key().c_str();
  if (value.has_part()) c.part = value.part().c_str();
  switch (value.value_case()) {
    case PluginValue::kBoolean:
      c.kind = ACCEL_BOOL;
      c.integer = value.boolean() ? 1 : 0;
      break;
    case PluginValue::kInteger:
      c.kind = ACCEL_INTEGER;
      c.integer = value.integer();
      break;
    case PluginValue::kNumber:
      c.kind = ACCEL_NUMBER;
      c.number = value.number();
      break;
    case PluginValue::kText:
      c.kind = ACCEL_TEXT;
      c.text = value.text().c_str();
      break;
    case PluginValue::VALUE_NOT_SET:
      break;
  }
  return c;
}

template <typename Values>
std::vector<accel_value> ToC(const Values& values) {
  std::vector<accel_value> c;
  for (const PluginValue& value : values) c.push_back(ToC(value));
  return c;
}

class Host {
 public:
  explicit Host(const accel_tracker_plugin& plugin) : plugin_(plugin) {}
  ~Host() { Close(); }

  FromTrackerPlugin Call(const ToTrackerPlugin& call) {
    char text[kMaxErrorBytes] = {};
    FromTrackerPlugin answer;
    answer.set_result(Dispatch(call, {text, sizeof(text)}));
    text[sizeof(text) - 1] = '\0';
    if (answer.result() != ACCEL_OK) answer.set_error(text);
    return answer;
  }

 private:
  int32_t Dispatch(const ToTrackerPlugin& call, accel_error error) {
    switch (call.call_case()) {
      case ToTrackerPlugin::kStart:
        return Start(call.start(), error);
      case ToTrackerPlugin::kStoreInitConfiguration: {
        if (plugin_.store_init_configuration == nullptr) return ACCEL_OK;
        const std::vector<accel_value> values = ToC(call.store_init_configuration().values());
        return plugin_.store_init_configuration(tracker_, values.data(), values.size(), error);
      }
      case ToTrackerPlugin::kLog:
        return Log(call.log().rows(), error);
      case ToTrackerPlugin::kOnRewind:
        if (plugin_.on_rewind == nullptr) return ACCEL_OK;
        return plugin_.on_rewind(tracker_, call.on_rewind(), error);
      case ToTrackerPlugin::kFinish:
        return plugin_.finish(tracker_, call.finish(), error);
      case ToTrackerPlugin::CALL_NOT_SET:
        break;
    }
    return ACCEL_REFUSED;
  }

  int32_t Start(const PluginRun& run, accel_error error) {
    Close();
    std::vector<accel_option> options;
    for (const auto& [name, value] : run.options()) {
      options.push_back({name.c_str(), value.c_str()});
    }
    const int64_t resume_step = run.resume_step();
    accel_run c = {};
    c.project = run.project().c_str();
    c.job = run.job().c_str();
    c.uid = run.uid().c_str();
    c.folder = TextOrNull(run.folder());
    c.secret = TextOrNull(run.secret());
    c.options = options.data();
    c.option_count = options.size();
    c.resume_step = run.has_resume_step() ? &resume_step : nullptr;
    const int32_t result = plugin_.start(&c, &tracker_, error);
    started_ = result == ACCEL_OK;
    return result;
  }

  template <typename Rows>
  int32_t Log(const Rows& rows, accel_error error) {
    std::vector<std::vector<accel_value>> values;
    for (const PluginRow& row : rows) values.push_back(ToC(row.values()));
    std::vector<accel_row> c;
    for (int i = 0; i < rows.size(); ++i) {
      const PluginRow& row = rows[i];
      c.push_back({row.sequence(), row.step(), row.time(), row.attempt(), row.rank(),
                   values[i].data(), values[i].size()});
    }
    return plugin_.log(tracker_, c.data(), c.size(), error);
  }

  void Close() {
    if (std::exchange(started_, false) && plugin_.close != nullptr) plugin_.close(tracker_);
    tracker_ = nullptr;
  }

  const accel_tracker_plugin& plugin_;
  accel_tracker* tracker_ = nullptr;
  bool started_ = false;
};

}  // namespace

absl::Status ServeTrackerPlugin(const accel_tracker_plugin& plugin, Fd channel) {
  MessageChannel messages(std::move(channel));
  Host host(plugin);
  while (true) {
    ToTrackerPlugin call;
    const absl::Status received = messages.Receive(&call);
    if (absl::IsOutOfRange(received)) return absl::OkStatus();
    ACCEL_RETURN_IF_ERROR(received);
    ACCEL_RETURN_IF_ERROR(messages.Send(host.Call(call)));
  }
}

}  // namespace accel::tracking
