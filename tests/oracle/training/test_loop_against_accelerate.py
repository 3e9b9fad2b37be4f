"""Averaging of the loss, local SGD and early ends: the same as scripts that do them as Accelerate's guides say."""

import pathlib

import pytest
import worker_harness
from test_against_accelerate import (
    CONVNET,
    MASKED,
    NUMBERS,
    PICTURES,
    SEEDABLE,
    assert_equal_evaluations,
    assert_equal_training,
    gpt_job,
    job,
    make_data,
    mlp,
    run_peer,
)

PEER = pathlib.Path(__file__).with_name("loop_peer.py")
ACCUMULATION = {"gradient_accumulation_plugin": {"num_steps": 3, "adjust_scheduler": False}}


def with_loss(spec, **loss):
    return {**spec, "loss": {**spec["loss"], **loss}}


# name -> (spec, accelerator)
JOBS = {
    # 17 batches on one rank and 9 on two: the last step of an epoch has 2 or, with num_steps 4, 1.
    "short_step_by_its_own_batches": (
        with_loss(
            job(mlp(0.1), {"adamw": {"lr": 0.02}}, epochs=4, schedule={"cosine": {}}), averaging="micro_batches"
        ),
        {**SEEDABLE, "gradient_accumulation_plugin": {"num_steps": 4, "adjust_scheduler": False}},
    ),
    "items_accumulation_clipping": (
        with_loss(
            job(
                mlp(0.1),
                {"adamw": {"lr": 0.02}},
                epochs=5,
                schedule={"linear": {}},
                clipping={"max_norm": 0.5},
                data=MASKED,
            ),
            averaging="items",
        ),
        ACCUMULATION,
    ),
    "items_without_accumulation_label_smoothing": (
        {
            **job(CONVNET, {"sgd": {"lr": 0.05, "momentum": 0.9}}, epochs=2, data={**PICTURES, "batch_size": 5}),
            "loss": {"cross_entropy": {"label_smoothing": 0.1, "ignore_index": 2}, "averaging": "items"},
        },
        SEEDABLE,
    ),
    "items_mse_uneven_batches": (
        {
            **job(
                {"mlp": {"layer_sizes": [64, 32, 2]}},
                {"adam": {"lr": 0.01}},
                epochs=6,
                # Accelerate can gather only where each rank has as many batches of the evaluation.
                data={**NUMBERS, "batch_size": 11, "evaluation_batch_size": 7},
            ),
            "loss": {"mse": {}, "averaging": "items"},
        },
        {**ACCUMULATION, "dataloader_config": {"even_batches": False}},
    ),
    # The letter o does not count.
    "tokens_accumulation": (
        with_loss(gpt_job({"adamw": {"lr": 0.003}}, epochs=6), next_token={"ignore_index": 111}, averaging="items"),
        ACCUMULATION,
    ),
    "tokens_bf16": (
        with_loss(gpt_job({"adamw": {"lr": 0.003}}), next_token={"ignore_index": 111}, averaging="items"),
        {**SEEDABLE, "mixed_precision": "bf16"},
    ),
    "tokens_that_do_not_count_in_means": (
        with_loss(gpt_job({"adamw": {"lr": 0.003}}), next_token={"ignore_index": 111}),
        SEEDABLE,
    ),
    "items_each_batch_reduced_split_batches_value_clipping": (
        with_loss(
            job(mlp(), {"sgd": {"lr": 0.2, "momentum": 0.9}}, clipping={"max_value": 0.01}, data=MASKED),
            averaging="items",
        ),
        {
            "gradient_accumulation_plugin": {"num_steps": 4, "sync_each_batch": True},
            "dataloader_config": {"split_batches": True, "use_seedable_sampler": True},
        },
    ),
    "items_dispatched": (
        with_loss(job(mlp(0.1), {"adam": {"lr": 0.01}}, epochs=5, data=MASKED), averaging="items"),
        {**ACCUMULATION, "dataloader_config": {"dispatch_batches": True}},
    ),
    # Gradients overflow in the first steps.
    "items_fp16": (
        with_loss(
            job(mlp(0.1), {"adamw": {"lr": 0.02}}, epochs=5, schedule={"linear": {}}, data=MASKED), averaging="items"
        ),
        {
            **ACCUMULATION,
            "mixed_precision": "fp16",
            "emulate_fp16": True,
            "scaler_kwargs": {"init_scale": 2.0**28, "growth_interval": 3},
        },
    ),
    "items_fp16_hook_bucket_views": (
        with_loss(
            job(CONVNET, {"adamw": {"lr": 0.01}}, data={**PICTURES, "batch_size": 5}), averaging="items"
        ),
        {
            "gradient_accumulation_plugin": {"num_steps": 2, "adjust_scheduler": False},
            "ddp_kwargs": {"comm_hook": "fp16", "gradient_as_bucket_view": True},
        },
    ),
    "local_sgd": (
        job(
            mlp(0.1),
            {"sgd": {"lr": 0.05, "momentum": 0.9}},
            schedule={"linear": {}},
            clipping={"max_norm": 0.5},
            local_sgd_steps=4,
        ),
        {},
    ),
    # Every rank has batch statistics and Adam's moments of its own.
    "local_sgd_convnet_accumulation": (
        job(CONVNET, {"adam": {"lr": 0.01}}, epochs=4, data=PICTURES, local_sgd_steps=3),
        {**SEEDABLE, "gradient_accumulation_plugin": {"num_steps": 2}},
    ),
    "early_end_in_an_epoch": (
        job(
            mlp(0.1),
            {"adamw": {"lr": 0.01}},
            epochs=20,
            early_stopping=[{"metric": "eval/loss", "patience": 9}, {"metric": "train/loss", "threshold": 0.35}],
        ),
        {},
    ),
    "early_end_by_patience": (
        job(
            mlp(),
            {"sgd": {"lr": 0.8, "momentum": 0.9}},
            epochs=40,
            early_stopping=[{"metric": "eval/accuracy", "patience": 3, "min_delta": 0.01}],
        ),
        SEEDABLE,
    ),
}


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    make_data(folder)
    return folder


@pytest.fixture(scope="module", params=[1, 2], ids=["1_rank", "2_ranks"])
def peer(request, data_folder, tmp_path_factory):
    """(world size, folder with the scripts' results of all jobs)."""
    world_size, out = request.param, tmp_path_factory.mktemp("peer")
    run_peer(JOBS, world_size, data_folder, out, script=PEER)
    return world_size, out


@pytest.mark.parametrize("name", JOBS)
def test_equals_accelerate(name, peer, data_folder, tmp_path):
    world_size, peer_folder = peer
    spec, accelerator = JOBS[name]
    ranks = worker_harness.train(spec, data_folder, world_size, accelerator, checkpoints=tmp_path)
    results = assert_equal_training(ranks, peer_folder / name, tmp_path)
    assert_equal_evaluations(ranks, results)
    stops_early = "early_stopping" in spec["loop"]
    for rank in ranks:
        (finished,) = rank.of("finished")
        assert finished.HasField("early_stopped") == stops_early
        if stops_early:
            assert finished.early_stopped.step == finished.step == len(results[0]["losses"])


@pytest.mark.parametrize("batch_size", [7, 8, 53])
def test_evaluation_does_not_depend_on_the_ranks(batch_size, data_folder, tmp_path):
    """Every sample counts once: with a remainder, with none, with ranks that have nothing of their own."""
    spec = job(mlp(), {"sgd": {"lr": 0}}, epochs=1, data={**MASKED, "evaluation_batch_size": batch_size})
    metrics = []
    for world_size, loading in ((1, {}), (2, {}), (3, {}), (3, {"even_batches": False})):
        ranks = worker_harness.train(
            spec,
            data_folder,
            world_size,
            {"dataloader_config": loading},
            checkpoints=tmp_path / f"{world_size}{len(loading)}",
        )
        assert worker_harness.finished(ranks) == "yes"
        metrics.append(dict(ranks[0].of("metrics")[-1].values))
    for other in metrics[1:]:
        assert other["eval/samples"] == metrics[0]["eval/samples"] == 53
        assert other["eval/accuracy"] == metrics[0]["eval/accuracy"]
        # Sums of other batches, in another order.
        assert other["eval/loss"] == pytest.approx(metrics[0]["eval/loss"], rel=1e-6)
