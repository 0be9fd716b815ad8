"""Settings: SHOP_BACKEND is streamfleet, database or rq, and nothing else differs."""

import os
from pathlib import Path
from urllib.parse import urlsplit

FOLDER = Path(os.environ["SHOP_FOLDER"])
REDIS = os.environ["SHOP_REDIS"]
SECRET_KEY = "only for tests"
USE_TZ = True
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": FOLDER / "shop.db", "OPTIONS": {"timeout": 30}}}
EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
EMAIL_FILE_PATH = FOLDER / "mails"
DEFAULT_FROM_EMAIL = "shop@example.com"
INSTALLED_APPS = ["shop"]
QUEUES = ["default", "reports"]

if os.environ["SHOP_BACKEND"] == "streamfleet":
    INSTALLED_APPS += ["streamfleet_django"]
    TASKS = {
        "default": {
            "BACKEND": "streamfleet_django.StreamfleetBackend",
            "QUEUES": QUEUES,
            "OPTIONS": {
                "url": REDIS,
                "backoff": {"fixed": "50ms"},
                "tasks": {"shop.tasks.flaky": {"max_attempts": 3}, "shop.tasks.hang": {"timeout": 1}},
                "worker": {"processes": int(os.environ.get("SHOP_PROCESSES", "2"))},
            },
        }
    }
elif os.environ["SHOP_BACKEND"] == "database":
    INSTALLED_APPS += ["django_tasks_db"]
    TASKS = {"default": {"BACKEND": "django_tasks_db.DatabaseBackend", "QUEUES": QUEUES}}
else:
    INSTALLED_APPS += ["django_rq"]
    TASKS = {"default": {"BACKEND": "django_tasks_rq.RQBackend", "QUEUES": QUEUES}}
    parts = urlsplit(REDIS)
    RQ_QUEUES = {queue: {"HOST": parts.hostname, "PORT": parts.port, "DB": 0} for queue in QUEUES}
