#include "core/tracking/wandb/wandb_items.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "core/base/utf8.h"
#include "core/tracking/json_values.h"

namespace accel::tracking {
namespace {

const std::set<std::string>& OwnKeys() {
  static const auto* const keys =
      new std::set<std::string>{"_step", "_timestamp", "_runtime", "_wandb"};
  return *keys;
}

// Drops every value of `key`, a map's too.
void Remove(const std::string& key, WandBItems* items) {
  auto at = items->lower_bound({key});
  while (at != items->end() && at->first.front() == key) at = items->erase(at);
}

}  // namespace

std::vector<std::string> AddValues(const LogCall& call, WandBItems* items) {
  std::vector<std::string> renamed;
  for (const auto& [name, value] : call.values) {
    std::string key = RepairUtf8(name);
    if (OwnKeys().count(key) > 0) {
      renamed.push_back(key);
      key = absl::StrCat("_", key);
    }
    if (value.value_case() == accel::v1::MetricValue::VALUE_NOT_SET) continue;
    Remove(key, items);
    if (value.has_number()) {
      (*items)[{key}] = JsonNumber(value.number(), NonFinite::kBareWord);
    } else if (value.has_text()) {
      (*items)[{key}] = JsonText(value.text());
    } else if (value.map().values().empty()) {
      (*items)[{key}] = "{}";
    }
    for (const auto& [part, number] : value.map().values()) {
      (*items)[{key, RepairUtf8(part)}] = JsonNumber(number, NonFinite::kBareWord);
    }
  }
  return renamed;
}

std::string ItemsJson(const WandBItems& items) {
  std::string json = "{";
  const std::string* map = nullptr;
  for (const auto& [path, text] : items) {
    const bool nested = path.size() > 1;
    if (map != nullptr && (!nested || path.front() != *map)) {
      json += "}";
      map = nullptr;
    }
    if (json.back() != '{') json += ",";
    if (nested && map == nullptr) {
      absl::StrAppend(&json, JsonText(path.front()), ":{");
      map = &path.front();
    }
    absl::StrAppend(&json, JsonText(path.back()), ":", text);
  }
  if (map != nullptr) json += "}";
  return json + "}";
}

}  // namespace accel::tracking
