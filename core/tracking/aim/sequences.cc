#include "core/tracking/aim/sequences.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/tracking/aim/tree.h"

namespace accel::tracking::aim {
namespace {

using accel::v1::MetricValue;
using nlohmann::json;

// Aim's hash of {}, under which what belongs to the empty context lies.
constexpr int64_t kContext = -4504863053055089774;
constexpr int64_t kGreatestStep = int64_t{1} << 60;

json Path(const json& base, std::initializer_list<json> parts) {
  json path = base;
  for (const json& part : parts) path.push_back(part);
  return path;
}

}  // namespace

Sequences::Sequences(std::string run, std::string meta, std::string sequences, Omissions* omissions)
    : run_(std::move(run)),
      meta_(std::move(meta)),
      sequences_(std::move(sequences)),
      omissions_(omissions) {}

json Sequences::RunPath() const { return json::array({"meta", "chunks", run_}); }

json Sequences::TracesPath() const { return Path(RunPath(), {"traces"}); }

void Sequences::Learn(const json& traces) {
  by_name_.clear();
  context_known_ = false;
  if (!traces.is_object()) return;
  const auto context = traces.find(absl::StrCat(kContext));
  if (context == traces.end() || !context->is_object()) return;
  context_known_ = true;
  for (const auto& [name, trace] : context->items()) {
    Sequence& sequence = by_name_[name];
    const auto learn = [&, &trace = trace](const char* field, auto* out) {
      const auto found = trace.find(field);
      if (found != trace.end() && found->is_number()) *out = *found;
    };
    sequence.type = trace.value("dtype", "float");
    sequence.version = 1;
    learn("version", &sequence.version);
    learn("last_step", &sequence.last_step);
    learn("min", &sequence.min);
    learn("max", &sequence.max);
  }
}

void Sequences::Add(const LogCall& call, json* instructions) {
  for (const auto& [raw_key, value] : call.values) {
    const std::string key = PathKey(raw_key);
    if (key != raw_key) omissions_->Note(key, "is the name of a key that aim cannot hold as it is");
    switch (value.value_case()) {
      case MetricValue::kNumber:
        AddPoint(key, value.number(), call, instructions);
        break;
      case MetricValue::kMap: {
        // protobuf's own order differs from run to run.
        const std::map<std::string, double> sorted(value.map().values().begin(),
                                                   value.map().values().end());
        for (const auto& [name, number] : sorted) {
          AddPoint(absl::StrCat(key, "/", PathKey(name)), number, call, instructions);
        }
        break;
      }
      case MetricValue::kText:
      case MetricValue::VALUE_NOT_SET:
        omissions_->Note(key, "has a value that is no number, left out");
        break;
    }
  }
}

void Sequences::AddPoint(const std::string& key, double value, const LogCall& call,
                         json* instructions) {
  const auto known = by_name_.find(key);
  const int64_t last = known == by_name_.end() ? -1 : known->second.last_step;
  const int64_t step = call.step.value_or(last + 1);
  if (step < 0 || step > kGreatestStep) {
    return omissions_->Note(key, "has a step that aim does not take, left out");
  }
  if (known != by_name_.end() && known->second.version != 2) {
    return omissions_->Note(key, "is no metric in the run that goes on, left out");
  }
  if (known == by_name_.end()) BeginSequence(key, value, step, instructions);
  Sequence& sequence = by_name_[key];
  if (sequence.type == "int") {
    sequence.type = "number";
    SetType(key, "number", instructions);
  }
  if (step > sequence.last_step) {
    SetTrace(key, "last", value, instructions);
    SetTrace(key, "last_step", step, instructions);
    sequence.last_step = step;
  }
  if (value > sequence.max) SetTrace(key, "max", sequence.max = value, instructions);
  if (value < sequence.min) SetTrace(key, "min", sequence.min = value, instructions);
  const json base = json::array({"seqs", "v2", "chunks", run_, kContext, key});
  const int64_t point = StepKey(step);
  const double seconds = static_cast<double>(absl::ToUnixMicros(call.time)) / 1e6;
  Set(sequences_, Path(base, {"val", point}), value, instructions);
  Set(sequences_, Path(base, {"epoch", point}), nullptr, instructions);
  Set(sequences_, Path(base, {"time", point}), seconds, instructions);
  Set(sequences_, Path(base, {"step", point}), step, instructions);
}

void Sequences::BeginSequence(const std::string& name, double value, int64_t step,
                              json* instructions) {
  for (const char* field : {"step", "val", "epoch", "time"}) {
    const json path = json::array({"seqs", "v2", "chunks", run_, kContext, name, field});
    instructions->push_back(json::array({sequences_, "make_array", json::array({path})}));
  }
  if (!std::exchange(context_known_, true)) {
    Set(meta_, json::array({"meta", "contexts", kContext}), json::object(), instructions);
    Set(meta_, Path(RunPath(), {"contexts", kContext}), json::object(), instructions);
  }
  SetType(name, "float", instructions);
  SetTrace(name, "version", 2, instructions);
  SetTrace(name, "first", value, instructions);
  SetTrace(name, "first_step", step, instructions);
  by_name_[name].type = "float";
}

void Sequences::SetType(const std::string& name, const char* type, json* instructions) const {
  Set(meta_, json::array({"meta", "traces_types", type, kContext, name}), 1, instructions);
  Set(meta_, Path(RunPath(), {"typed_traces", "metric", kContext, name}), 1, instructions);
  SetTrace(name, "dtype", type, instructions);
}

void Sequences::SetTrace(const std::string& name, const char* field, json value,
                         json* instructions) const {
  Set(meta_, Path(TracesPath(), {kContext, name, field}), std::move(value), instructions);
}

void Sequences::Set(const std::string& handler, json path, json value, json* instructions) const {
  instructions->push_back(
      json::array({handler, "__setitem__", json::array({std::move(path), std::move(value)})}));
}

}  // namespace accel::tracking::aim
