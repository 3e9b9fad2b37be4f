#include "core/tracking/wandb/wandb_log.h"

#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace accel::tracking {
namespace {

using accel::internal::v1::wandb::HistoryRecord;
using accel::internal::v1::wandb::Item;
using accel::internal::v1::wandb::Record;

constexpr absl::string_view kHeader("\x3a\x57\x26\x42\xe1\xbe\x00", 7);

template <typename Items>
void ToRecord(const WandBItems& items, Items* out) {
  for (const auto& [path, text] : items) {
    Item* const item = out->Add();
    if (path.size() == 1) {
      item->set_key(path.front());
    } else {
      for (const std::string& part : path) item->add_nested_key(part);
    }
    item->set_value_json(text);
  }
}

template <typename Items>
void FromRecord(const Items& in, WandBItems* items) {
  for (const Item& item : in) {
    std::vector<std::string> path(item.nested_key().begin(), item.nested_key().end());
    if (path.empty()) path.push_back(item.key());
    (*items)[std::move(path)] = item.value_json();
  }
}

}  // namespace

absl::StatusOr<WandBLog> WandBLog::Open(const std::filesystem::path& path,
                                        const accel::internal::v1::wandb::RunRecord& run,
                                        int64_t first_line) {
  WandBLog wandb(first_line);
  ACCEL_ASSIGN_OR_RETURN(BlockLog log, BlockLog::Open(path, kHeader, [&](absl::string_view bytes) {
                           Record record;
                           if (record.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
                             wandb.Learn(record);
                         }));
  wandb.log_.emplace(std::move(log));
  if (wandb.num_ > 0) return wandb;
  Record header;
  header.mutable_header()->mutable_version_info()->set_producer("0.31.0");
  header.mutable_header()->mutable_version_info()->set_min_consumer("0.31.0");
  wandb.Add(std::move(header));
  Record start;
  *start.mutable_run() = run;
  wandb.Add(std::move(start));
  return wandb;
}

void WandBLog::Learn(const Record& record) {
  num_ = record.num();
  if (int64_t sequence = 0; absl::SimpleAtoi(record.uuid(), &sequence)) sequence_ = sequence;
  if (record.has_exit()) has_exit_ = true;
  if (record.has_summary()) FromRecord(record.summary().update(), &summary_);
  if (!record.has_history()) return;
  step_ = record.history().step().num();
  if (rows_++ < first_line_) return;
  WandBItems items;
  FromRecord(record.history().item(), &items);
  lines_.push_back(ItemsJson(items));
}

void WandBLog::Add(Record record) {
  record.set_num(++num_);
  log_->Add(record.SerializeAsString());
}

void WandBLog::AddConfig(const WandBItems& items) {
  Record record;
  ToRecord(items, record.mutable_config()->mutable_update());
  Add(std::move(record));
}

void WandBLog::AddRow(int64_t step, const WandBItems& items, int64_t sequence) {
  // The summary first: a log that is cut off between the two must not lack what the row says it
  // has.
  Record summary;
  ToRecord(items, summary.mutable_summary()->mutable_update());
  Add(std::move(summary));
  for (const auto& [path, text] : items) summary_[path] = text;
  Record row;
  row.set_uuid(absl::StrCat(sequence));
  row.mutable_history()->mutable_step()->set_num(step);
  ToRecord(items, row.mutable_history()->mutable_item());
  Add(std::move(row));
  sequence_ = sequence;
  step_ = step;
  if (rows_++ >= first_line_) lines_.push_back(ItemsJson(items));
}

void WandBLog::AddExit(int exit_code, absl::Duration runtime) {
  Record record;
  record.mutable_exit()->set_exit_code(exit_code);
  record.mutable_exit()->set_runtime(static_cast<int32_t>(absl::ToInt64Seconds(runtime)));
  Add(std::move(record));
  has_exit_ = true;
}

void WandBLog::DropLines(size_t count) {
  lines_.erase(lines_.begin(), lines_.begin() + static_cast<std::ptrdiff_t>(count));
  first_line_ += static_cast<int64_t>(count);
}

}  // namespace accel::tracking
