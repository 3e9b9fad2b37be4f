#include "core/tracking/clearml/online_api.h"

#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/base/utf8.h"
#include "core/tracking/http/json_api.h"

namespace accel::tracking::clearml {
namespace {

using nlohmann::json;

constexpr char kVersionPath[] = "/v2.23/";
constexpr char kClientHeader[] = "X-ClearML-Client: accel-" ACCEL_VERSION;

std::string WorkerHeader() {
  char host[256] = "node";
  gethostname(host, sizeof(host) - 1);
  return absl::StrCat("X-ClearML-Worker: ", host);
}

// `text` as a regular expression that only it matches.
std::string ExactPattern(const std::string& text) {
  std::string pattern = "^";
  for (const char c : text) {
    if (absl::StrContains(R"(\.+*?()[]{}^$|)", c)) pattern.push_back('\\');
    pattern.push_back(c);
  }
  return pattern + "$";
}

std::string Lines(const json& events, size_t first, size_t last) {
  std::string lines;
  for (size_t i = first; i < last; ++i) absl::StrAppend(&lines, DumpJson(events[i]), "\n");
  return lines;
}

json TextList(const std::vector<std::string>& texts) {
  json list = json::array();
  for (const std::string& text : texts) list.push_back(RepairUtf8(text));
  return list;
}

}  // namespace

absl::Status OnlineApi::Login() {
  constexpr char kWhat[] = "clearml's login";
  ACCEL_RETURN_IF_ERROR(api_keys_.status());
  ACCEL_ASSIGN_OR_RETURN(
      const JsonAnswer answer,
      ExchangeJson(client_.get(), "POST", absl::StrCat(host_, "/auth.login"),
                   {absl::StrCat("Authorization: Basic ", absl::Base64Escape(*api_keys_)),
                    kClientHeader, WorkerHeader()},
                   json::object()));
  ACCEL_RETURN_IF_ERROR(answer.ToStatus(kWhat));
  if (answer.body.is_object()) token_ = StringMember(answer.body.value("data", json()), "token");
  if (!token_.empty()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(kWhat, " was answered without a token"));
}

absl::StatusOr<std::string> OnlineApi::FindProject(const std::string& name) {
  ACCEL_ASSIGN_OR_RETURN(const json found, Call("projects.get_all", {{"name", ExactPattern(name)},
                                                                     {"only_fields", {"id"}},
                                                                     {"search_hidden", true},
                                                                     {"shallow_search", false}}));
  const json projects = found.value("projects", json::array());
  for (const json& project : projects) {
    const std::string id = StringMember(project, "id");
    if (!id.empty()) return id;
  }
  ACCEL_ASSIGN_OR_RETURN(const json made,
                         Call("projects.create", {{"name", name}, {"description", ""}}));
  return StringMember(made, "id");
}

absl::StatusOr<std::string> OnlineApi::FindTask(const std::string& project,
                                                const std::string& mark) {
  ACCEL_ASSIGN_OR_RETURN(
      const json found,
      Call("tasks.get_all", {{"project", json::array({project})},
                             {"system_tags", json::array({mark})},
                             {"only_fields", json::array({"id", "system_tags"})}}));
  for (const json& task : found.value("tasks", json::array())) {
    // A server that does not filter must not make us write into another's task.
    const json marks = task.is_object() ? task.value("system_tags", json()) : json();
    if (marks.is_array() && std::find(marks.begin(), marks.end(), mark) != marks.end()) {
      return StringMember(task, "id");
    }
  }
  return "";
}

absl::StatusOr<std::string> OnlineApi::CreateTask(const TaskOptions& options) {
  ACCEL_ASSIGN_OR_RETURN(const std::string project, FindProject(RepairUtf8(options.project)));
  ACCEL_ASSIGN_OR_RETURN(const std::string found, FindTask(project, options.mark));
  if (!found.empty()) return found;
  ACCEL_ASSIGN_OR_RETURN(
      const json made,
      Call("tasks.create", {{"name", RepairUtf8(options.name)},
                            {"type", "training"},
                            {"project", project},
                            {"system_tags", json::array({"development", options.mark})},
                            {"tags", TextList(options.tags)},
                            {"comment", RepairUtf8(options.comment)}}));
  const std::string id = StringMember(made, "id");
  if (id.empty()) return absl::UnavailableError("clearml made a task without an id");
  return id;
}

absl::Status OnlineApi::StartTask(const std::string& task, bool again) {
  return Call("tasks.started", {{"task", task}, {"force", again}}).status();
}

absl::Status OnlineApi::SetConfiguration(const std::string& task, const json& configuration) {
  return Call("tasks.edit", {{"task", task}, {"force", true}, {"configuration", configuration}})
      .status();
}

absl::StatusOr<std::string> OnlineApi::AddEvents(const json& events, size_t first, size_t last) {
  ACCEL_ASSIGN_OR_RETURN(const json data, CallText("events.add_batch", "application/json-lines",
                                                   Lines(events, first, last)));
  const auto errors = data.find("errors");
  if (errors == data.end() || *errors == 0) return "";
  return absl::StrCat(DumpJson(*errors), " of ", last - first,
                      " values were refused: ", DumpJson(data.value("errors_info", json())));
}

absl::Status OnlineApi::EndTask(const std::string& task, RunOutcome outcome) {
  switch (outcome) {
    case RunOutcome::kSucceeded:
      return Call("tasks.completed", {{"task", task},
                                      {"status_reason", "completed"},
                                      {"force", false},
                                      {"publish", false}})
          .status();
    case RunOutcome::kFailed:
      return Call("tasks.failed", {{"task", task},
                                   {"status_reason", "failed"},
                                   {"status_message", "the job failed"}})
          .status();
    case RunOutcome::kCancelled:
      break;
  }
  return Call("tasks.stopped", {{"task", task},
                                {"status_reason", "cancelled"},
                                {"status_message", "the job was cancelled"}})
      .status();
}

absl::StatusOr<json> OnlineApi::Call(const std::string& action, const json& body) {
  return CallText(action, "application/json", DumpJson(body));
}

absl::StatusOr<json> OnlineApi::CallText(const std::string& action, absl::string_view content_type,
                                         const std::string& body) {
  const auto send = [&] {
    return ExchangeText(
        client_.get(), "POST", absl::StrCat(host_, kVersionPath, action),
        {absl::StrCat("Authorization: Bearer ", token_), kClientHeader, WorkerHeader()},
        content_type, body);
  };
  ACCEL_ASSIGN_OR_RETURN(JsonAnswer answer, send());
  if (answer.response.status == 401) {
    ACCEL_RETURN_IF_ERROR(Login());
    ACCEL_ASSIGN_OR_RETURN(answer, send());
  }
  ACCEL_RETURN_IF_ERROR(answer.ToStatus(absl::StrCat("clearml's ", action)));
  const json data = answer.body.is_object() ? answer.body.value("data", json()) : json();
  return data.is_object() ? data : json::object();
}

}  // namespace accel::tracking::clearml
