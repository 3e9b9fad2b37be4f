// One job on two machines: two real accel-supervisors with fake workers, a rank each, on loopback.

#include <arpa/inet.h>
#include <netinet/in.h>

#include <array>

#include "gmock/gmock.h"
#include "tests/unit/supervisor/job_fixture.h"

namespace accel::supervisor {
namespace {

using accel::v1::Failure;
using accel::v1::Job;
using accel::v1::LogRecord;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int kPort = 29511;

// A loopback address of this process's own, so that tests at the same time do not meet.
sockaddr_in OwnSockaddr() {
  const auto pid = static_cast<uint32_t>(getpid());
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kPort);
  address.sin_addr.s_addr = htonl(127u << 24 | (1 + (pid >> 16 & 63)) << 16 | (pid & 0xffff));
  return address;
}

std::string OwnAddress() {
  char text[INET_ADDRSTRLEN];
  const sockaddr_in address = OwnSockaddr();
  return inet_ntop(AF_INET, &address.sin_addr, text, sizeof(text));
}

class MachinesTest : public testing::Test {
 protected:
  MachinesTest() {
    SetTimeout(30);
    for (int machine = 0; machine < 2; ++machine) {
      auto& spec = *machines_[machine].launch_.mutable_job()->mutable_spec();
      spec.mutable_multi_node()->set_num_machines(2);
      spec.mutable_multi_node()->set_machine_rank(machine);
      spec.mutable_multi_node()->set_main_process_ip(OwnAddress());
      spec.mutable_multi_node()->set_main_process_port(kPort);
      spec.mutable_data()->set_batch_size(8);
    }
  }

  void SetTimeout(int seconds) {
    for (JobRunner& machine : machines_) {
      machine.launch_.mutable_job()
          ->mutable_resolved_accelerator()
          ->mutable_init_process_group_kwargs()
          ->mutable_timeout()
          ->set_seconds(seconds);
    }
  }

  // The ranks do what machine 0's job says.
  void Start(const std::string& rank0, const std::string& rank1) {
    main().Start(2, {{"rank0", rank0}, {"rank1", rank1}});
    other().Start(2, {});
  }

  void AwaitRunning() {
    for (JobRunner& machine : machines_) {
      control_.push_back(machine.Connect());
      machine.AwaitState(*control_.back(), Job::RUNNING);
    }
  }

  // Both jobs end in `state`.
  void ExpectEnd(Job::State state) {
    for (JobRunner& machine : machines_) {
      EXPECT_EQ(machine.WaitForExit(), 0) << machine.Log();
      const auto status = machine.RecordedStatus();
      EXPECT_EQ(status.state(), state) << status.ShortDebugString() << machine.Log();
      JobRunner::ExpectNoWorkers(status);
    }
  }

  JobRunner& main() { return machines_[0]; }
  JobRunner& other() { return machines_[1]; }
  MessageChannel& control(int machine) { return *control_[machine]; }

  std::array<JobRunner, 2> machines_;
  std::vector<std::unique_ptr<MessageChannel>> control_;
};

TEST_F(MachinesTest, EachHasItsPartOfTheRecord) {
  Start("ready;print:1;step:3;checkpoint:1;finish", "ready;print:2;step:3;checkpoint:1;finish");
  ExpectEnd(Job::SUCCEEDED);
  for (int machine = 0; machine < 2; ++machine) {
    JobRunner& runner = machines_[machine];
    const auto status = runner.RecordedStatus();
    EXPECT_EQ(status.progress().step(), 3);
    EXPECT_EQ(status.progress().total_steps(), 1000);
    ASSERT_EQ(status.attempts_size(), 1);
    EXPECT_EQ(status.attempts(0).batch_size(), 8);
    EXPECT_TRUE(status.attempts(0).has_end_time());
    ASSERT_EQ(status.attempts(0).workers_size(), 1);
    EXPECT_EQ(status.attempts(0).workers(0).rank(), machine);
    EXPECT_THAT(runner.States(),
                ElementsAre(Job::QUEUED, Job::STARTING, Job::RUNNING, Job::SUCCEEDED));
    EXPECT_THAT(runner.Lines(machine, LogRecord::STDOUT), SizeIs(machine + 1));
    EXPECT_THAT(runner.Lines(1 - machine, LogRecord::STDOUT), IsEmpty());
    const auto checkpoints = *runner.Reader()->ListCheckpoints();
    ASSERT_THAT(checkpoints, SizeIs(1));
    EXPECT_EQ(checkpoints[0].path(), (runner.dir() / "checkpoints/1").string());
  }
  ASSERT_THAT(main().Metrics(), SizeIs(3));
  EXPECT_DOUBLE_EQ(main().Metrics()[2].values().at("train/loss").number(), (3 * 1.0 + 1 * 2.0) / 4);
  EXPECT_THAT(other().Metrics(), IsEmpty());
}

TEST_F(MachinesTest, TheOneThatComesFirstWaits) {
  other().Start(2, {});
  auto channel = other().Connect();
  other().AwaitState(*channel, Job::STARTING);
  main().Start(2, {{"all", "ready;step:1;finish"}});
  ExpectEnd(Job::SUCCEEDED);
}

TEST_F(MachinesTest, ARankThatDiesIsTheCauseOnBoth) {
  Start("ready;step:4;hang", "ready;step:4;signal:9");
  ExpectEnd(Job::FAILED);
  for (JobRunner& machine : machines_) {
    const Failure failure = machine.RecordedStatus().failure();
    EXPECT_EQ(failure.cause(), Failure::SIGNAL);
    EXPECT_EQ(failure.message(), "rank 1 exited on signal 9 at step 5");
    EXPECT_EQ(machine.RecordedStatus().attempts(0).failure().message(), failure.message());
  }
}

TEST_F(MachinesTest, AMalformedMessageOfARankIsTheCause) {
  Start("ready;hang", "ready;garbage;hang");
  ExpectEnd(Job::FAILED);
  const Failure failure = other().RecordedStatus().failure();
  EXPECT_EQ(failure.cause(), Failure::INTERNAL);
  EXPECT_THAT(failure.message(), AllOf(HasSubstr("rank 1"), HasSubstr("malformed")));
}

TEST_F(MachinesTest, LackOfMemoryOnOneStartsAllAnew) {
  for (JobRunner& machine : machines_) {
    machine.launch_.mutable_job()
        ->mutable_spec()
        ->mutable_loop()
        ->mutable_find_executable_batch_size()
        ->set_reduce_factor(0.5);
  }
  Start("ready;step:1;finish", "ready;fits:2;step:1;finish");
  ExpectEnd(Job::SUCCEEDED);
  for (JobRunner& machine : machines_) {
    const auto status = machine.RecordedStatus();
    ASSERT_EQ(status.attempts_size(), 3);
    for (int attempt = 0; attempt < 3; ++attempt) {
      EXPECT_EQ(status.attempts(attempt).batch_size(), 8 >> attempt);
      EXPECT_EQ(status.attempts(attempt).has_failure(), attempt < 2);
    }
    EXPECT_EQ(status.attempts(0).failure().cause(), Failure::OUT_OF_MEMORY);
  }
}

TEST_F(MachinesTest, AStopOnEitherEndsBothAtOneStep) {
  for (const int machine : {0, 1}) {
    SCOPED_TRACE(machine);
    if (machine == 1) {
      // Begin anew in new folders.
      control_.clear();
      machines_[0].Reset();
      machines_[1].Reset();
    }
    Start("ready;steps_until_cut;finish", "ready;steps_until_cut;finish");
    AwaitRunning();
    JobRunner::SendStop(control(machine), 60);
    ExpectEnd(Job::CANCELLED);
    EXPECT_EQ(main().RecordedStatus().progress().step(),
              other().RecordedStatus().progress().step());
    for (JobRunner& runner : machines_) {
      EXPECT_THAT(runner.States(), ElementsAre(Job::QUEUED, Job::STARTING, Job::RUNNING,
                                               Job::STOPPING, Job::CANCELLED));
    }
  }
}

TEST_F(MachinesTest, RanksThatIgnoreAStopAreKilledOnBoth) {
  Start("ready;deaf;hang", "ready;deaf;hang");
  AwaitRunning();
  JobRunner::SendStop(control(1), 0.05);
  ExpectEnd(Job::CANCELLED);
}

TEST_F(MachinesTest, ACheckpointThatOneIsAskedForIsEachMachines) {
  Start("ready;steps_until_cut;finish", "ready;steps_until_cut;finish");
  AwaitRunning();
  JobRunner::SendCheckpoint(control(1));
  for (JobRunner& machine : machines_) {
    while (machine.Reader()->ListCheckpoints()->empty()) poll(nullptr, 0, 5);
  }
  JobRunner::SendStop(control(0), 60);
  ExpectEnd(Job::CANCELLED);
  EXPECT_EQ(main().Reader()->ListCheckpoints()->at(0).step(),
            other().Reader()->ListCheckpoints()->at(0).step());
}

TEST_F(MachinesTest, ALostMachineIsTheCauseOnTheOther) {
  for (const int lost : {0, 1}) {
    SCOPED_TRACE(lost);
    if (lost == 1) {
      control_.clear();
      machines_[0].Reset();
      machines_[1].Reset();
    }
    Start("ready;hang", "ready;hang");
    AwaitRunning();
    machines_[lost].Kill();
    JobRunner& rest = machines_[1 - lost];
    EXPECT_EQ(rest.WaitForExit(), 0);
    const auto status = rest.RecordedStatus();
    EXPECT_EQ(status.state(), Job::FAILED);
    EXPECT_EQ(status.failure().cause(), Failure::MACHINE);
    EXPECT_THAT(status.failure().message(),
                AllOf(HasSubstr(absl::StrCat("machine ", lost, " at 127.")),
                      HasSubstr("was lost: it closed the connection")));
    EXPECT_TRUE(status.attempts(0).has_end_time());
    JobRunner::ExpectNoWorkers(status);
  }
}

TEST_F(MachinesTest, NobodyComes) {
  SetTimeout(1);
  main().Start(2, {});
  EXPECT_EQ(main().WaitForExit(), 0);
  EXPECT_EQ(main().RecordedStatus().failure().cause(), Failure::MACHINE);
  EXPECT_EQ(main().RecordedStatus().failure().message(),
            absl::StrCat("machine 1 of 2 did not come to ", OwnAddress(), " port ", kPort,
                         " within 1s, init_process_group_kwargs.timeout"));
  other().Start(2, {});
  EXPECT_EQ(other().WaitForExit(), 0);
  EXPECT_EQ(other().RecordedStatus().failure().cause(), Failure::MACHINE);
  EXPECT_THAT(other().RecordedStatus().failure().message(), HasSubstr("Connection refused"));
}

TEST_F(MachinesTest, AnotherJobIsRefused) {
  SetTimeout(3);
  other().launch_.mutable_job()->mutable_spec()->mutable_data()->set_batch_size(9);
  Start("ready;finish", "ready;finish");
  ExpectEnd(Job::FAILED);
  EXPECT_THAT(other().RecordedStatus().failure().message(),
              AllOf(HasSubstr("refused this machine: its job is another"), HasSubstr("batch_size"),
                    HasSubstr("8 -> 9")));
}

TEST_F(MachinesTest, ThePortIsTaken) {
  Fd taken(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(taken.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const sockaddr_in name = OwnSockaddr();
  ASSERT_EQ(bind(taken.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)), 0);
  ASSERT_EQ(listen(taken.get(), 1), 0);
  main().Start(2, {});
  EXPECT_EQ(main().WaitForExit(), 0);
  EXPECT_THAT(main().RecordedStatus().failure().message(),
              HasSubstr(absl::StrCat("cannot listen on ", OwnAddress(), " port ", kPort)));
}

TEST_F(MachinesTest, ARankThatCannotBeStarted) {
  other().launch_.set_worker_path("/nonexistent/accel-worker");
  Start("ready;hang", "ready;hang");
  ExpectEnd(Job::FAILED);
  for (JobRunner& machine : machines_) {
    EXPECT_THAT(machine.RecordedStatus().failure().message(),
                AllOf(HasSubstr("cannot start its ranks"), HasSubstr("/nonexistent")));
  }
}

TEST_F(MachinesTest, StrangersDoNoHarm) {
  main().Start(2, {{"all", "ready;step:1;finish"}});
  auto channel = main().Connect();
  main().AwaitState(*channel, Job::STARTING);
  const sockaddr_in name = OwnSockaddr();
  std::vector<Fd> strangers;
  for (const char* text : {"", "GET / HTTP/1.1\r\n\r\n", "\xff\xff\xff\xff", "\x02\0\0\0"}) {
    Fd& stranger = strangers.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    while (connect(stranger.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)) != 0) {
      poll(nullptr, 0, 1);
    }
    EXPECT_GE(send(stranger.get(), text, std::strlen(text), MSG_NOSIGNAL), 0);
  }
  other().Start(2, {});
  ExpectEnd(Job::SUCCEEDED);
}

}  // namespace
}  // namespace accel::supervisor
