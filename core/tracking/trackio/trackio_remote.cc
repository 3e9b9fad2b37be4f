#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "core/tracking/http/delivery_error.h"
#include "core/tracking/json_values.h"
#include "core/tracking/trackio/trackio_store.h"

namespace accel::tracking {
namespace {

namespace fs = std::filesystem;

// What both ways name of a row: `"project":...,"config":{...},"log_id":...`.
std::string Entry(const TrackioRun& run, const TrackioRow& row) {
  return absl::StrCat("\"project\":", JsonText(run.project), ",\"run\":", JsonText(run.name),
                      ",\"run_id\":", JsonText(run.id), ",\"metrics\":", row.metrics,
                      ",\"step\":", row.step, ",\"timestamp\":", JsonText(row.timestamp),
                      ",\"config\":", run.config, ",\"log_id\":", JsonText(row.log_id));
}

class InboxStore final : public TrackioStore {
 public:
  InboxStore(const fs::path& folder, const std::string& writer, FileSystem* files)
      : root_(folder), folder_(folder / "inbox" / writer), files_(files) {}

  absl::Status Add(const TrackioRun& run, const std::vector<TrackioRow>& rows) override {
    if (rows.empty()) return absl::OkStatus();
    ACCEL_RETURN_IF_ERROR(CreatePrivateDirectories(folder_));
    std::string text;
    for (const TrackioRow& row : rows) {
      absl::StrAppend(&text, "{\"v\":1,\"kind\":\"metric\",", Entry(run, row), "}\n");
    }
    const int64_t number = NextNumber();
    return files_->WriteDurably(folder_ / absl::StrFormat("%08d.jsonl", number), text);
  }

  std::string location() const override { return root_.string(); }

 private:
  // Fragments are taken away once they are imported, so the number only has to be new among those
  // that are there.
  int64_t NextNumber() {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder_, error)) {
      int64_t number = 0;
      if (absl::SimpleAtoi(entry.path().stem().string(), &number)) {
        next_ = std::max(next_, number + 1);
      }
    }
    return next_++;
  }

  const fs::path root_;
  const fs::path folder_;
  FileSystem* const files_;
  int64_t next_ = 0;
};

class ServerStore final : public TrackioStore {
 public:
  explicit ServerStore(JsonApi api) : api_(std::move(api)) {}

  absl::Status Add(const TrackioRun& run, const std::vector<TrackioRow>& rows) override {
    if (rows.empty()) return absl::OkStatus();
    std::string logs;
    for (const TrackioRow& row : rows) {
      absl::StrAppend(&logs, logs.empty() ? "" : ",", "{", Entry(run, row), "}");
    }
    absl::StatusOr<nlohmann::json> answer =
        api_.Send("POST", "/api/bulk_log",
                  absl::StrCat(R"({"args":[],"kwargs":{"logs":[)", logs, R"(],"hf_token":null}})"));
    if (absl::StrContains(answer.status().message(), "write_token")) {
      return Permanent(absl::UnauthenticatedError("the server refused the write token"));
    }
    if (absl::IsInvalidArgument(answer.status())) return Permanent(answer.status());
    ACCEL_RETURN_IF_ERROR(answer.status());
    if (answer->is_object() && answer->contains("error")) {
      return absl::UnavailableError(
          absl::StrCat("the server answered with an error: ", DumpJson((*answer)["error"])));
    }
    return absl::OkStatus();
  }

  std::string location() const override { return api_.base_url(); }

 private:
  JsonApi api_;
};

}  // namespace

std::unique_ptr<TrackioStore> TrackioStore::Inbox(const fs::path& folder, const std::string& writer,
                                                  FileSystem* files) {
  return std::make_unique<InboxStore>(folder, writer, files);
}

std::unique_ptr<TrackioStore> TrackioStore::Server(JsonApi api) {
  return std::make_unique<ServerStore>(std::move(api));
}

}  // namespace accel::tracking
