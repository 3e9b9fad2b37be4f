#ifndef ACCEL_TESTS_UNIT_SUPERVISOR_MEMORY_WRITER_H_
#define ACCEL_TESTS_UNIT_SUPERVISOR_MEMORY_WRITER_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/record/writer.h"

namespace accel::supervisor {

// A record in memory whose commits can be made to fail.
class MemoryWriter final : public record::Writer {
 public:
  struct Contents {
    bool full = false;
    std::vector<std::string> rows;
  };

  explicit MemoryWriter(Contents* contents) : contents_(contents) {}

  absl::StatusOr<int64_t> Append(accel::v1::MetricRecord record) override {
    return Add(absl::StrCat("metric ", record.step()));
  }
  absl::StatusOr<int64_t> Append(accel::v1::LogRecord record) override {
    return Add(absl::StrCat("log ", record.text().substr(0, 4)));
  }
  absl::StatusOr<int64_t> Append(accel::v1::EventRecord record) override {
    return Add(record.has_warning() ? absl::StrCat("warning ", record.warning().subject(), " ",
                                                   record.warning().count())
                                    : absl::StrCat("event ", record.message()));
  }
  absl::Status SetStatus(const accel::internal::v1::JobStatus& status) override {
    return Add(absl::StrCat("status ", status.state())).status();
  }
  absl::Status AddCheckpoint(const accel::v1::Checkpoint& checkpoint) override {
    return Add(absl::StrCat("add ", checkpoint.name())).status();
  }
  absl::Status RemoveCheckpoint(absl::string_view name) override {
    return Add(absl::StrCat("remove ", name)).status();
  }
  absl::Status Commit() override {
    std::vector<std::string> rows = std::exchange(rows_, {});
    if (contents_->full) return absl::ResourceExhaustedError("disk is full");
    contents_->rows.insert(contents_->rows.end(), rows.begin(), rows.end());
    return absl::OkStatus();
  }
  int64_t last_sequence() const override { return static_cast<int64_t>(contents_->rows.size()); }

 private:
  absl::StatusOr<int64_t> Add(std::string row) {
    rows_.push_back(std::move(row));
    return last_sequence() + static_cast<int64_t>(rows_.size());
  }

  Contents* const contents_;
  std::vector<std::string> rows_;
};

}  // namespace accel::supervisor

#endif  // ACCEL_TESTS_UNIT_SUPERVISOR_MEMORY_WRITER_H_
