def act(visit): pass
