#include <sys/stat.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "core/base/message_channel.h"
#include "core/tracking/custom/custom_tracker.h"
#include "core/tracking/http/delivery_error.h"
#include "core/tracking/plugin/plugin_host.h"
#include "core/tracking/plugin/plugin_library.h"
#include "core/tracking/plugin/plugin_process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/tracking/fake_http.h"

namespace accel::tracking {
namespace {

namespace fs = std::filesystem;
using accel::internal::v1::FromTrackerPlugin;
using accel::internal::v1::ToTrackerPlugin;
using accel::internal::v1::TrackerPlugin;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What the plug-in below was told, one line a call.
std::vector<std::string>& Told() {
  static auto* const told = new std::vector<std::string>;
  return *told;
}

std::string Describe(const accel_value& value) {
  std::string text = value.key;
  if (value.part != nullptr) absl::StrAppend(&text, ".", value.part);
  switch (value.kind) {
    case ACCEL_BOOL:
    case ACCEL_INTEGER:
      return absl::StrCat(text, "=", value.kind, ":", value.integer);
    case ACCEL_NUMBER:
      return absl::StrCat(text, "=", value.number);
    case ACCEL_TEXT:
      return absl::StrCat(text, "='", value.text, "'");
    default:
      return absl::StrCat(text, "=none");
  }
}

int32_t Start(const accel_run* run, accel_tracker** tracker, accel_error) {
  Told().push_back(absl::StrCat("start ", run->project, " ", run->job, " ", run->uid, " ",
                                run->folder == nullptr ? "-" : run->folder, " ",
                                run->secret == nullptr ? "-" : run->secret, " ", run->option_count,
                                " ", run->resume_step == nullptr ? -1 : *run->resume_step));
  *tracker = reinterpret_cast<accel_tracker*>(&Told());
  return ACCEL_OK;
}

int32_t Config(accel_tracker*, const accel_value* values, size_t count, accel_error) {
  for (size_t i = 0; i < count; ++i) Told().push_back("config " + Describe(values[i]));
  return ACCEL_OK;
}

int32_t Log(accel_tracker* tracker, const accel_row* rows, size_t count, accel_error error) {
  EXPECT_EQ(tracker, reinterpret_cast<accel_tracker*>(&Told()));
  for (size_t i = 0; i < count; ++i) {
    std::string line = absl::StrCat("row ", rows[i].sequence, " ", rows[i].step, " ", rows[i].rank);
    for (size_t v = 0; v < rows[i].value_count; ++v) line += " " + Describe(rows[i].values[v]);
    Told().push_back(line);
    if (rows[i].step == 13) {
      // Longer than there is room: must not matter.
      std::memset(error.text, 'x', error.size);
      return ACCEL_RETRY;
    }
  }
  return ACCEL_OK;
}

int32_t Finish(accel_tracker*, int32_t outcome, accel_error error) {
  Told().push_back(absl::StrCat("finish ", outcome));
  std::strncpy(error.text, "enough", error.size);
  return ACCEL_REFUSED;
}

void Close(accel_tracker*) { Told().push_back("close"); }

accel_tracker_plugin Good() {
  accel_tracker_plugin plugin = {};
  plugin.abi_version = ACCEL_TRACKER_ABI_VERSION;
  plugin.name = "mine";
  plugin.requires_logging_directory = ACCEL_NO;
  plugin.start = Start;
  plugin.store_init_configuration = Config;
  plugin.log = Log;
  plugin.finish = Finish;
  plugin.close = Close;
  return plugin;
}

std::string Refusal(void (*change)(accel_tracker_plugin*)) {
  accel_tracker_plugin plugin = Good();
  change(&plugin);
  return std::string(CheckTrackerPlugin(plugin).message());
}

TEST(TrackerPluginTest, MissingAttributesAreNamed) {
  EXPECT_TRUE(CheckTrackerPlugin(Good()).ok());
  EXPECT_EQ(Refusal([](accel_tracker_plugin* p) { p->name = ""; }), "lacks name");
  EXPECT_EQ(Refusal([](accel_tracker_plugin* p) {
              *p = {};
              p->abi_version = ACCEL_TRACKER_ABI_VERSION;
            }),
            "lacks name, requires_logging_directory, start, log, finish");
  EXPECT_EQ(Refusal([](accel_tracker_plugin* p) { p->rewind = ACCEL_VOIDS; }), "lacks on_rewind");
  EXPECT_THAT(Refusal([](accel_tracker_plugin* p) { p->abi_version = 2; }),
              HasSubstr("has ABI version 2; allowed: 1"));
  EXPECT_THAT(Refusal([](accel_tracker_plugin* p) { p->name = "a b"; }),
              HasSubstr("has the name \"a b\""));
  EXPECT_THAT(Refusal([](accel_tracker_plugin* p) { p->main_process_only = 9; }),
              HasSubstr("main_process_only 9"));
}

TEST(TrackerPluginTest, CallsAreHandedOverAndAnswered) {
  Told().clear();
  auto ends = *MakeSocketPair();
  const accel_tracker_plugin plugin = Good();
  std::thread host([&] { EXPECT_TRUE(ServeTrackerPlugin(plugin, std::move(ends.second)).ok()); });
  {
    MessageChannel channel(std::move(ends.first));
    const auto call = [&](auto fill) {
      ToTrackerPlugin message;
      fill(&message);
      FromTrackerPlugin answer;
      EXPECT_TRUE(channel.Send(message).ok());
      EXPECT_TRUE(channel.Receive(&answer).ok());
      return answer;
    };
    EXPECT_EQ(call([](ToTrackerPlugin* m) {
                m->mutable_start()->set_project("p");
                m->mutable_start()->set_job("j");
                m->mutable_start()->set_uid("u");
                m->mutable_start()->set_secret("s");
                (*m->mutable_start()->mutable_options())["o"] = "v";
                m->mutable_start()->set_resume_step(4);
              }).result(),
              ACCEL_OK);
    call([](ToTrackerPlugin* m) {
      auto* const values = m->mutable_store_init_configuration();
      values->add_values()->set_key("nothing");
      values->add_values()->set_boolean(true);
      values->add_values()->set_integer(5);
      values->add_values()->set_text("t");
    });
    const FromTrackerPlugin answer = call([](ToTrackerPlugin* m) {
      auto* const row = m->mutable_log()->add_rows();
      row->set_sequence(1);
      row->set_step(13);
      row->set_rank(-1);
      row->add_values()->set_number(0.5);
      auto* const part = row->add_values();
      part->set_key("map");
      part->set_part("a");
      part->set_number(2);
    });
    EXPECT_EQ(answer.result(), ACCEL_RETRY);
    EXPECT_EQ(answer.error().size(), 1023);
    // Not there, and not required.
    EXPECT_EQ(call([](ToTrackerPlugin* m) { m->set_on_rewind(3); }).result(), ACCEL_OK);
    const FromTrackerPlugin finish = call([](ToTrackerPlugin* m) { m->set_finish(ACCEL_FAILED); });
    EXPECT_EQ(finish.result(), ACCEL_REFUSED);
    EXPECT_EQ(finish.error(), "enough");
  }
  host.join();
  EXPECT_THAT(Told(), ElementsAre("start p j u - s 1 4", "config nothing=none", "config =1:1",
                                  "config =2:5", "config ='t'", "row 1 13 -1 =0.5 map.a=2",
                                  "finish 1", "close"));
}

class PluginProcessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "accel_plugin_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  // The first call of a host that does this instead.
  absl::Status CallTo(const std::string& script) {
    const fs::path program = folder_ / "host";
    std::ofstream(program) << "#!/bin/sh\n" << script << "\n";
    fs::permissions(program, fs::perms::owner_all);
    auto process = PluginProcess::Start(program, TrackerPlugin(), &ProcessLauncher::Real(),
                                        absl::Milliseconds(200));
    if (!process.ok()) return process.status();
    ToTrackerPlugin call;
    call.set_finish(0);
    const absl::Status status = (*process)->Call(call);
    EXPECT_FALSE((*process)->usable());
    EXPECT_TRUE(absl::IsUnavailable((*process)->Call(call)));
    return status;
  }

  fs::path folder_;
};

TEST_F(PluginProcessTest, EndsAndSilencesAreTold) {
  EXPECT_THAT(std::string(CallTo("exit 7").message()), HasSubstr("exited with code 7"));
  EXPECT_THAT(std::string(CallTo("kill -SEGV $$").message()), HasSubstr("exited on signal 11"));
  EXPECT_THAT(std::string(CallTo("exec sleep 1000").message()),
              HasSubstr("did not answer within 200ms"));
}

TEST(LoadTrackerPluginTest, OtherContentsAreRefused) {
  const auto other = LoadTrackerPlugin("/proc/self/exe", std::string(64, '0'));
  EXPECT_TRUE(absl::IsFailedPrecondition(other.status()));
  EXPECT_THAT(std::string(other.status().message()), HasSubstr("was registered"));
}

TEST(CustomTrackerTest, EachCallIsAPostOfLines) {
  FakeServer server;
  TrackerContext context = ContextOf(&server);
  context.custom = {{"mine", "https://host/in"}};
  context.settings = TrackerSettings({}, {{"mine", "tok"}});
  accel::v1::CustomTracker spec;
  spec.set_name("mine");
  (*spec.mutable_options())["o"] = "v";
  const auto tracker = *CustomTracker::Make(spec, context);
  ASSERT_TRUE(tracker->Start(std::nullopt).ok());
  ASSERT_TRUE(tracker->StoreInitConfiguration({{"lr", 0.1}}).ok());
  LogCall call = Row(1, 2, "nan", std::nan(""));
  (*call.values["map"].mutable_map()->mutable_values())["a"] = 2;
  ASSERT_TRUE(tracker->Log({call, Row(2, 3, "a", 1)}).ok());
  ASSERT_TRUE(tracker->OnRewind(3).ok());
  ASSERT_TRUE(tracker->Finish(RunOutcome::kCancelled).ok());
  std::string lines;
  for (const HttpRequest& request : server.requests) {
    EXPECT_EQ(request.url, "https://host/in");
    EXPECT_THAT(request.headers,
                ElementsAre("Authorization: Bearer tok", "Content-Type: application/x-ndjson"));
    lines += request.body;
  }
  EXPECT_EQ(
      lines,
      R"({"event":"start","job":"job","options":{"o":"v"},"project":"project","resume_step":null,"uid":"uid-1"}
{"event":"config","job":"job","uid":"uid-1","values":{"lr":0.1}}
{"attempt":0,"event":"log","job":"job","sequence":1,"step":2,"time":1700000101.0,"uid":"uid-1","values":{"map":{"a":2.0},"nan":"NaN"}}
{"attempt":0,"event":"log","job":"job","sequence":2,"step":3,"time":1700000102.0,"uid":"uid-1","values":{"a":1.0}}
{"event":"rewind","job":"job","step":3,"uid":"uid-1"}
{"event":"finish","job":"job","outcome":"cancelled","uid":"uid-1"}
)");
  server.answer = [](const HttpRequest&) { return FakeServer::Json(400, "no"); };
  EXPECT_TRUE(IsPermanent(tracker->Log({call})));
  spec.set_name("other");
  EXPECT_TRUE(absl::IsFailedPrecondition(CustomTracker::Make(spec, context).status()));
}

}  // namespace
}  // namespace accel::tracking
