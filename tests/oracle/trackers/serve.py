"""A tracker's own server on loopback: serve.py aim|mlflow|trackio FOLDER [PORT]. Prints its port, serves until SIGTERM."""

import os
import pathlib
import socket
import sys


def mlflow_app(folder):
    os.environ["_MLFLOW_SERVER_FILE_STORE"] = f"sqlite:///{folder}/mlflow.db"
    os.environ["_MLFLOW_SERVER_ARTIFACT_ROOT"] = str(folder / "artifacts")
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    from mlflow.server.fastapi_app import app

    return app


def trackio_app(folder):
    os.environ["TRACKIO_DIR"] = str(folder)
    from trackio.server import build_starlette_app_only

    return build_starlette_app_only()[0]


def aim_app(folder):
    os.environ["__AIM_SERVER_MOUNT_REPO_PATH__"] = str(folder / ".aim")
    os.environ["AIM_UI_TELEMETRY_ENABLED"] = "0"
    from aim.ext.transport.server import create_app
    from aim.sdk.repo import Repo

    Repo.from_path(str(folder), init=True)
    return create_app()


def main():
    import uvicorn

    kind, folder = sys.argv[1], pathlib.Path(sys.argv[2]).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    app = {"aim": aim_app, "mlflow": mlflow_app, "trackio": trackio_app}[kind](folder)
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", int(sys.argv[3]) if len(sys.argv) > 3 else 0))

    class Server(uvicorn.Server):
        async def startup(self, sockets=None):
            await super().startup(sockets)
            print(listener.getsockname()[1], flush=True)

    Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])


main()
